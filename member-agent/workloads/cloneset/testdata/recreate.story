== create 5
app:1 0/5                    create 5 app:1; [ScaleOut(5 of 5)]
app:1 5/5                    at rest
== app:2
app:1 3/3  app:2 0/2         delete 2, create 2 app:2; [Update(2 of 5) UpdateHeldByMaxUnavailable(3 of 5)]
app:1 1/1  app:2 2/4         delete 2, create 2 app:2; [Update(2 of 3) UpdateHeldByMaxUnavailable(1 of 3)]
app:2 4/5                    delete 1, create 1 app:2; [Update(1 of 1)]
app:2 5/5                    at rest
