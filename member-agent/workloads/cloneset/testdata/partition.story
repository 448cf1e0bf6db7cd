== create 5
app:1 0/5                    create 5 app:1; [ScaleOut(5 of 5)]
app:1 5/5                    at rest
== app:2 with partition 60%
app:1 3/3  app:2 0/2         update 2; [Update(2 of 2)]
app:1 3/3  app:2 0/2         open 2; []
app:1 3/3  app:2 2/2         at rest
== partition 80%: one goes back
app:1 3/4  app:2 1/1         update 1; [RollBack(1 of 1)]
app:1 3/4  app:2 1/1         open 1; []
app:1 4/4  app:2 1/1         at rest
== scale out to 10
app:1 4/8  app:2 1/2         create 4 app:1, create 1 app:2; [ScaleOut(5 of 10)]
app:1 8/8  app:2 2/2         at rest
== no partition
app:1 6/6  app:2 2/4         update 2; [Update(2 of 8) UpdateHeldByMaxUnavailable(6 of 8)]
app:1 6/6  app:2 2/4         open 2; [UpdateHeldByMaxUnavailable(6 of 6)]
app:1 4/4  app:2 4/6         update 2; [Update(2 of 6) UpdateHeldByMaxUnavailable(4 of 6)]
app:1 4/4  app:2 4/6         open 2; [UpdateHeldByMaxUnavailable(4 of 4)]
app:1 2/2  app:2 6/8         update 2; [Update(2 of 4) UpdateHeldByMaxUnavailable(2 of 4)]
app:1 2/2  app:2 6/8         open 2; [UpdateHeldByMaxUnavailable(2 of 2)]
app:2 8/10                   update 2; [Update(2 of 2)]
app:2 8/10                   open 2; []
app:2 10/10                  at rest
