== create 5
app:1 0/5                    create 5 app:1; [ScaleOut(5 of 5)]
app:1 5/5                    at rest
== an image that does not exist
app:1 3/3  app:2 0/2         update 2; [Update(2 of 5) UpdateHeldByMaxUnavailable(3 of 5)]
app:1 3/3  app:2 0/2         at rest
== back
app:1 3/5                    update 2; [Update(2 of 2)]
app:1 3/5                    open 2; []
app:1 5/5                    at rest
