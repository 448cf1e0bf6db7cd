== create 10
app:1 0/10                   create 10 app:1; [ScaleOut(10 of 10)]
app:1 10/10                  at rest
== app:2 with maxSurge 3, maxUnavailable 0
app:1 10/10  app:2 0/3       create 3 app:2; [UpdateHeldByMaxUnavailable(10 of 10) Surge(3 of 3)]
app:1 7/7  app:2 3/6         delete 3, create 3 app:2; [SurgeReplaced(3 of 3) UpdateHeldByMaxUnavailable(7 of 7) Surge(3 of 3)]
app:1 4/4  app:2 6/9         delete 3, create 3 app:2; [SurgeReplaced(3 of 3) UpdateHeldByMaxUnavailable(4 of 4) Surge(3 of 3)]
app:1 1/1  app:2 9/10        delete 3, create 1 app:2; [SurgeReplaced(3 of 3) UpdateHeldByMaxUnavailable(1 of 1) Surge(1 of 3)]
app:2 10/10                  delete 1; [ScaleIn(1 of 1)]
app:2 10/10                  at rest
