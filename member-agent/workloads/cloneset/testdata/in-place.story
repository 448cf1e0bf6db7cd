== create 5
app:1 0/5                    create 5 app:1; [ScaleOut(5 of 5)]
app:1 5/5                    at rest
== app:2
app:1 3/3  app:2 0/2         update 2; [Update(2 of 5) UpdateHeldByMaxUnavailable(3 of 5)]
app:1 3/3  app:2 0/2         open 2; [UpdateHeldByMaxUnavailable(3 of 3)]
app:1 1/1  app:2 2/4         update 2; [Update(2 of 3) UpdateHeldByMaxUnavailable(1 of 3)]
app:1 1/1  app:2 2/4         open 2; [UpdateHeldByMaxUnavailable(1 of 1)]
app:2 4/5                    update 1; [Update(1 of 1)]
app:2 4/5                    open 1; []
app:2 5/5                    at rest
== scale in to 3
app:2 3/3                    delete 2; [ScaleIn(2 of 2)]
app:2 3/3                    at rest
