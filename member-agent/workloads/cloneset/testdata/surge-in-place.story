== create 5
app:1 0/5                    create 5 app:1; [ScaleOut(5 of 5)]
app:1 5/5                    at rest
== app:2 with maxSurge 2, maxUnavailable 0
app:1 5/5  app:2 0/2         create 2 app:2; [UpdateHeldByMaxUnavailable(5 of 5) Surge(2 of 2)]
app:1 3/3  app:2 2/4         update 2; [Update(2 of 3) UpdateHeldByMaxUnavailable(1 of 3)]
app:1 3/3  app:2 2/4         open 2; [UpdateHeldByMaxUnavailable(1 of 1)]
app:1 2/2  app:2 4/5         update 1; [Update(1 of 1)]
app:1 1/1  app:2 4/5         delete 1, open 1; [ScaleIn(1 of 2) ScaleInHeldByMaxUnavailable(1 of 2)]
app:2 5/5                    delete 1; [ScaleIn(1 of 1)]
app:2 5/5                    at rest
