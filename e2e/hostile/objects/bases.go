package objects

// bases returns a valid object of each kind that fits the others, by "kind apiVersion".
func bases() map[string]map[string]any {
	const apps, policy, topology = "apps.kruise.io/", "policy.kruise.io/", "topology.flotilla.dev/v1alpha1"
	rolling := map[string]any{
		"type": "RollingUpdate",
		"rollingUpdate": map[string]any{
			"podUpdatePolicy": "InPlaceIfPossible",
			"maxUnavailable":  int64(2),
			"partition":       "50%",
		},
	}
	older := map[string]any{"type": "InPlaceIfPossible", "maxUnavailable": int64(2), "partition": "50%"}
	return map[string]map[string]any{
		"AdvancedCronJob " + apps + "v1beta1":           object("clean", cronJob()),
		"AdvancedCronJob " + apps + "v1alpha1":          object("clean", cronJob()),
		"BroadcastJob " + apps + "v1beta1":              object("repair", broadcastJob()),
		"BroadcastJob " + apps + "v1alpha1":             object("repair", broadcastJob()),
		"CloneSet " + apps + "v1beta1":                  object("api", cloneSet(rolling)),
		"CloneSet " + apps + "v1alpha1":                 object("api", cloneSet(older)),
		"DaemonSet " + apps + "v1beta1":                 object("log", daemonSet(true)),
		"DaemonSet " + apps + "v1alpha1":                object("log", daemonSet(false)),
		"ImageListPullJob " + apps + "v1beta1":          object("pull", pullJob("images", []any{"web:1", "nginx"})),
		"ImageListPullJob " + apps + "v1alpha1":         object("pull", pullJob("images", []any{"web:1", "nginx"})),
		"ImagePullJob " + apps + "v1beta1":              object("pull", pullJob("image", "registry.example/web:1")),
		"ImagePullJob " + apps + "v1alpha1":             object("pull", pullJob("image", "registry.example/web:1")),
		"NodeImage " + apps + "v1beta1":                 without(object("node-1", nodeImage())),
		"NodeImage " + apps + "v1alpha1":                without(object("node-1", nodeImage())),
		"EphemeralJob " + apps + "v1alpha1":             object("dump", ephemeralJob()),
		"NodePodProbe " + apps + "v1alpha1":             without(object("node-1", nodePodProbe())),
		"PodProbeMarker " + apps + "v1alpha1":           object("roles", podProbeMarker()),
		"PersistentPodState " + apps + "v1beta1":        object("db", podState("keys")),
		"PersistentPodState " + apps + "v1alpha1":       object("db", podState("nodeTopologyKeys")),
		"ResourceDistribution " + apps + "v1beta1":      without(object("pull", distribution("namespaceSelector"))),
		"ResourceDistribution " + apps + "v1alpha1":     without(object("pull", distribution("namespaceLabelSelector"))),
		"PodUnavailableBudget " + policy + "v1beta1":    object("web", budget(true)),
		"PodUnavailableBudget " + policy + "v1alpha1":   object("web", budget(false)),
		"SidecarSet " + apps + "v1beta1":                without(object("log", sidecars())),
		"SidecarSet " + apps + "v1alpha1":               without(object("log", sidecars())),
		"StatefulSet " + apps + "v1beta1":               object("db", statefulSet(true)),
		"StatefulSet " + apps + "v1alpha1":              object("db", statefulSet(false)),
		"ContainerRecreateRequest " + apps + "v1beta1":  object("restart", recreateRequest()),
		"ContainerRecreateRequest " + apps + "v1alpha1": object("restart", recreateRequest()),
		"UnitedDeployment " + apps + "v1beta1": object("web", united(map[string]any{"cloneSetTemplate": map[string]any{
			"metadata": map[string]any{
				"labels": label(),
			}, "spec": map[string]any{"template": template(), "updateStrategy": rolling},
		}})),
		"UnitedDeployment " + apps + "v1alpha1": object("web", united(map[string]any{"statefulSetTemplate": map[string]any{
			"metadata": map[string]any{
				"labels": label(),
			}, "spec": map[string]any{"selector": map[string]any{"matchLabels": label()}, "template": template(),
				"serviceName": "web"},
		}})),
		"WorkloadSpread " + apps + "v1beta1":  object("spread", spread()),
		"WorkloadSpread " + apps + "v1alpha1": object("spread", spread()),
		"FederationPolicy " + topology:        object("everywhere", federation()),
		"ClusterFederationPolicy " + topology: without(object("everywhere", federation())),
		"MemberCluster " + topology:           without(member("east")),
		"WorkloadPlacement " + topology:       object("cloneset-api", placement()),
		"Work work.karmada.io/v1alpha1":       work(),
	}
}

func object(name string, spec map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name, "namespace": "shop", "labels": label()}, "spec": spec}
}

// without takes the namespace away.
func without(o map[string]any) map[string]any {
	delete(o["metadata"].(map[string]any), "namespace")
	return o
}

func label() map[string]any { return map[string]any{"app": "web"} }

func template() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": label()},
		"spec": map[string]any{"containers": []any{map[string]any{
			"name": "web", "image": "nginx:1.27", "resources": map[string]any{"requests": map[string]any{"cpu": "100m",
				"memory": "64Mi"}},
		}}},
	}
}

func cloneSet(strategy map[string]any) map[string]any {
	return map[string]any{
		"replicas": int64(9), "selector": map[string]any{"matchLabels": label()}, "template": template(),
		"updateStrategy": strategy,
		"scaleStrategy":  map[string]any{"maxUnavailable": "20%"}, "minReadySeconds": int64(5),
	}
}

// statefulSet returns the spec of a StatefulSet, with the fields that only v1beta1 has if it is newer.
func statefulSet(newer bool) map[string]any {
	spec := map[string]any{
		"replicas": int64(5), "serviceName": "db", "podManagementPolicy": "Parallel", "template": template(),
		"selector": map[string]any{"matchLabels": label()},
		"updateStrategy": map[string]any{"rollingUpdate": map[string]any{
			"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "40%", "partition": int64(1),
		}},
		"volumeClaimTemplates": []any{map[string]any{
			"metadata": map[string]any{"name": "data"},
			"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}},
		}},
	}
	if newer {
		spec["reserveOrdinals"] = []any{int64(1), "3-4"}
		spec["ordinals"] = map[string]any{"start": int64(1)}
		spec["volumeClaimUpdateStrategy"] = map[string]any{"type": "OnPodRollingUpdate"}
	}
	return spec
}

// cronJob returns the spec of an AdvancedCronJob, which is the same in both versions.
func cronJob() map[string]any {
	return map[string]any{
		"schedule": "30 2 * * 1-5", "timeZone": "Europe/Berlin", "startingDeadlineSeconds": int64(600),
		"concurrencyPolicy": "Forbid", "paused": false, "successfulJobsHistoryLimit": int64(2),
		"failedJobsHistoryLimit": int64(1), "template": map[string]any{"broadcastJobTemplate": map[string]any{
			"metadata": map[string]any{"labels": label()}, "spec": broadcastJob(),
		}},
	}
}

// broadcastJob returns the spec of a BroadcastJob, which is the same in both versions.
func broadcastJob() map[string]any {
	probe := template()
	probe["spec"].(map[string]any)["restartPolicy"] = "Never"
	return map[string]any{
		"template": probe, "parallelism": "50%", "completionPolicy": map[string]any{"activeDeadlineSeconds": int64(3600)},
		"failurePolicy": map[string]any{"type": "Pause", "restartLimit": int64(2)},
		"flotilla": map[string]any{"batches": map[string]any{
			"size": "40%", "orderBy": "topology.kubernetes.io/zone", "soak": "5s", "maxRestarts": int64(1),
			"checks": []any{
				map[string]any{"name": "ready", "expression": "node.metadata.name != ''", "patience": "30s"},
				map[string]any{"name": "probe", "pod": map[string]any{"template": probe}},
			},
		}},
	}
}

// pullJob returns the spec of a job that pulls what the field of this name says.
func pullJob(field string, images any) map[string]any {
	return map[string]any{
		field: images, "pullSecrets": []any{"registry"}, "parallelism": "10%", "imagePullPolicy": "Always",
		"selector":   map[string]any{"matchLabels": map[string]any{"disk": "ssd"}},
		"pullPolicy": map[string]any{"timeoutSeconds": int64(60), "backoffLimit": int64(2)},
		"completionPolicy": map[string]any{
			"type": "Always", "activeDeadlineSeconds": int64(3600), "ttlSecondsAfterFinished": int64(600)},
		"sandboxConfig": map[string]any{"labels": label(), "annotations": map[string]any{"mirror": "near"}},
		"flotilla":      map[string]any{"pullBy": "Daemon"},
	}
}

// nodeImage returns the spec of a NodeImage.
func nodeImage() map[string]any {
	return map[string]any{"images": map[string]any{"registry.example/web": map[string]any{
		"pullSecrets": []any{map[string]any{"namespace": "flotilla-system", "name": "pull-1"}},
		"tags": []any{map[string]any{"tag": "1", "createdAt": "2026-01-01T00:00:00Z", "version": int64(2),
			"pullPolicy": map[string]any{"timeoutSeconds": int64(60), "backoffLimit": int64(2),
				"ttlSecondsAfterFinished": int64(86400)},
			"ownerReferences": []any{map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
				"namespace": "shop", "name": "pull", "uid": "u"}}}},
	}}}
}

// ephemeralJob returns the spec of an EphemeralJob.
func ephemeralJob() map[string]any {
	return map[string]any{
		"selector": map[string]any{"matchLabels": label()}, "replicas": int64(2), "parallelism": int64(1),
		"activeDeadlineSeconds": int64(60), "template": map[string]any{"ephemeralContainers": []any{
			map[string]any{"name": "dump", "image": "busybox:1", "targetContainerName": "main"}}},
	}
}

// podProbeMarker returns the spec of a PodProbeMarker.
func podProbeMarker() map[string]any {
	return map[string]any{
		"selector": map[string]any{"matchLabels": label()}, "probes": []any{map[string]any{
			"name": "leader", "containerName": "main", "podConditionType": "example.org/leader",
			"probe": map[string]any{"exec": map[string]any{"command": []any{"is-leader"}}, "periodSeconds": int64(5)},
			"markerPolicy": []any{map[string]any{"state": "Succeeded", "labels": map[string]any{"role": "leader"}},
				map[string]any{"state": "Failed", "annotations": map[string]any{"role": "follower"}}},
		}},
	}
}

// nodePodProbe returns the spec of a NodePodProbe.
func nodePodProbe() map[string]any {
	return map[string]any{"podProbes": []any{map[string]any{
		"name": "db-0", "namespace": "shop", "uid": "1", "IP": "10.0.0.1", "probes": []any{map[string]any{
			"name": "roles#leader", "containerName": "main",
			"probe": map[string]any{"tcpSocket": map[string]any{"port": int64(80)}}}},
	}}}
}

// recreateRequest returns the spec of a ContainerRecreateRequest.
func recreateRequest() map[string]any {
	return map[string]any{
		"podName": "web-1", "containers": []any{map[string]any{"name": "web"}},
		"strategy":                map[string]any{"failurePolicy": "Fail", "minStartedSeconds": int64(1)},
		"activeDeadlineSeconds":   int64(60),
		"ttlSecondsAfterFinished": int64(60),
	}
}

// podState returns the spec of a PersistentPodState, with the name that its version has for keys.
func podState(keys string) map[string]any {
	term := func(key string) map[string]any { return map[string]any{keys: []any{key}} }
	return map[string]any{
		"targetRef": map[string]any{
			"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db"},
		"persistentPodAnnotations":   []any{map[string]any{"key": "example.org/ip"}},
		"requiredPersistentTopology": term("topology.kubernetes.io/zone"),
		"preferredPersistentTopology": []any{
			map[string]any{"weight": int64(50), "preference": term("kubernetes.io/hostname")}},
		"flotilla": map[string]any{"missingNodes": "Release"},
	}
}

// distribution returns the spec of a ResourceDistribution, with the name that its version has for the selector.
func distribution(selector string) map[string]any {
	return map[string]any{
		"resource": map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "pull"},
			"data": map[string]any{"key": "dmFsdWU="}, "stringData": map[string]any{"more": "value"}},
		"targets": map[string]any{selector: map[string]any{"matchLabels": label()},
			"includedNamespaces": map[string]any{"list": []any{map[string]any{"name": "shop"}}},
			"excludedNamespaces": map[string]any{"list": []any{map[string]any{"name": "bank"}}}},
	}
}

// budget returns the spec of a PodUnavailableBudget, with the fields that only v1beta1 has if it is newer.
func budget(newer bool) map[string]any {
	spec := map[string]any{"selector": map[string]any{"matchLabels": label()}, "maxUnavailable": "30%"}
	if newer {
		spec["protectOperations"] = []any{"DELETE", "EVICT"}
		spec["protectTotalReplicas"] = int64(4)
		spec["ignoredPodSelector"] = map[string]any{"matchLabels": map[string]any{"debug": "true"}}
	}
	return spec
}

// sidecars returns the spec of a SidecarSet.
func sidecars() map[string]any {
	return map[string]any{
		"selector":          map[string]any{"matchLabels": label()},
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"team": "shop"}},
		"initContainers": []any{map[string]any{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always",
			"resourcesPolicy": map[string]any{"targetContainersMode": "max", "resourcesExpr": map[string]any{
				"limits": map[string]any{"cpu": "max(cpu*50%, 50m)"}}}}},
		"containers": []any{map[string]any{"name": "log", "image": "log:1", "podInjectPolicy": "AfterAppContainer",
			"shareVolumePolicy": map[string]any{"type": "enabled"},
			"transferEnv":       []any{map[string]any{"sourceContainerName": "web", "envNames": []any{"ZONE"}}},
			"volumeMounts":      []any{map[string]any{"name": "data", "mountPath": "/data"}}}},
		"volumes":          []any{map[string]any{"name": "data", "emptyDir": map[string]any{}}},
		"imagePullSecrets": []any{map[string]any{"name": "pull"}},
		"updateStrategy": map[string]any{"maxUnavailable": "20%", "scatterStrategy": []any{
			map[string]any{"key": "zone", "value": "*"}}},
		"injectionStrategy": map[string]any{"revision": map[string]any{"customVersion": "v1", "policy": "Partial"}},
		"patchPodMetadata":  []any{map[string]any{"annotations": map[string]any{"logs": "on"}, "patchPolicy": "Retain"}},
		"flotilla":          map[string]any{"failurePolicy": "Ignore"},
	}
}

// daemonSet returns the spec of a DaemonSet, with the fields that only v1beta1 has if it is newer.
func daemonSet(newer bool) map[string]any {
	spec := map[string]any{
		"template": template(), "selector": map[string]any{"matchLabels": label()}, "minReadySeconds": int64(5),
		"burstReplicas": "50%", "updateStrategy": map[string]any{"rollingUpdate": map[string]any{
			"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": "40%", "partition": int64(1),
			"selector": map[string]any{"matchLabels": map[string]any{"canary": "true"}},
		}},
		"lifecycle": map[string]any{"preDelete": map[string]any{"labelsHandler": map[string]any{"held": "true"}}},
	}
	if newer {
		spec["scaleStrategy"] = map[string]any{"partitionedScaling": true}
	}
	return spec
}

func term(zone string) map[string]any {
	return map[string]any{
		"matchExpressions": []any{
			map[string]any{"key": "topology.kubernetes.io/zone", "operator": "In", "values": []any{zone}},
		},
	}
}

func united(of map[string]any) map[string]any {
	return map[string]any{
		"replicas": int64(12), "selector": map[string]any{"matchLabels": label()}, "template": of,
		"topology": map[string]any{"subsets": []any{
			map[string]any{"name": "zone-a", "replicas": "25%", "nodeSelectorTerm": term("a")},
			map[string]any{
				"name":             "zone-b",
				"nodeSelectorTerm": term("b"),
				"tolerations":      []any{map[string]any{"key": "a", "operator": "Exists"}},
			},
			map[string]any{"name": "zone-c", "nodeSelectorTerm": term("c")},
		}},
	}
}

func spread() map[string]any {
	return map[string]any{
		"targetRef": map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "api"},
		"subsets": []any{
			map[string]any{
				"name":                     "a",
				"maxReplicas":              int64(3),
				"requiredNodeSelectorTerm": term("a"),
				"patch":                    map[string]any{"metadata": map[string]any{"labels": map[string]any{"subset": "a"}}},
			},
			map[string]any{"name": "b", "maxReplicas": "30%", "requiredNodeSelectorTerm": term("b")},
			map[string]any{"name": "c"},
		},
		"scheduleStrategy": map[string]any{
			"type":     "Adaptive",
			"adaptive": map[string]any{"rescheduleCriticalSeconds": int64(30)},
		},
	}
}

func federation() map[string]any {
	return map[string]any{
		"workloads": []any{
			map[string]any{"kind": "CloneSet"}, map[string]any{"kind": "UnitedDeployment"},
			map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet"},
		},
		"clusters": map[string]any{},
		"spread": map[string]any{
			"by":     "Zone",
			"type":   "Weighted",
			"places": []any{map[string]any{"zone": "a", "weight": int64(2), "max": "60%"}},
		},
		"overrides": []any{
			map[string]any{"clusters": map[string]any{"names": []any{"east"}}, "imageRegistry": "registry.example.org"},
		},
		"failover":   map[string]any{"mode": "Replace", "after": "5m"},
		"reschedule": map[string]any{},
		"rollout": map[string]any{
			"strategy": "Waves",
			"waves": []any{
				map[string]any{"name": "first", "clusters": map[string]any{"names": []any{"east"}}, "soak": "1m", "checks": []any{
					map[string]any{
						"name": "errors",
						"http": map[string]any{
							"url":          "http://127.0.0.1/",
							"expression":   "json.errors < 5",
							"interval":     "30s",
							"timeout":      "5s",
							"failureLimit": int64(2),
							"caBundle":     "Y2E=",
						},
					},
					map[string]any{
						"name": "smoke",
						"job":  map[string]any{"template": map[string]any{"spec": map[string]any{"backoffLimit": int64(0)}}},
					},
				}},
				map[string]any{"name": "rest"},
			},
		},
	}
}

func member(name string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{
			"name": name,
		}, "spec": map[string]any{"accepted": true, "clusterID": "id-" + name, "weight": int64(1)},
		"status": map[string]any{
			"clusterID": "id-" + name, "session": int64(1), "region": "eu", "kubernetesVersion": "v1.36.0",
			"zones": []any{
				map[string]any{
					"name":        "a",
					"nodes":       int64(3),
					"ready":       int64(3),
					"allocatable": map[string]any{"cpu": "8", "memory": "16Gi", "pods": "110"},
					"requested":   map[string]any{"cpu": "1"},
				},
				map[string]any{
					"name":        "b",
					"nodes":       int64(3),
					"ready":       int64(2),
					"allocatable": map[string]any{"cpu": "8", "memory": "16Gi", "pods": "110"},
				},
			},
			"conditions": []any{condition("Accepted", "Accepted"), condition("Ready", "LeaseFresh")},
		},
	}
}

func condition(name, reason string) map[string]any {
	return map[string]any{
		"type":               name,
		"status":             "True",
		"reason":             reason,
		"message":            "",
		"lastTransitionTime": "2026-01-01T00:00:00Z",
	}
}

func placement() map[string]any {
	cell := func(cluster string, n int64) map[string]any {
		share := map[string]any{"update": int64(1), "break": int64(1), "add": int64(0)}
		return map[string]any{
			"cluster":  cluster,
			"replicas": n,
			"share":    share,
			"held":     share,
			"sequence": int64(3),
			"reason":   map[string]any{"code": "Spread"},
		}
	}
	return map[string]any{
		"workload": map[string]any{
			"apiVersion": "apps.kruise.io/v1beta1",
			"kind":       "CloneSet",
			"name":       "api",
			"uid":        "u",
			"generation": int64(1),
		}, "replicas": int64(9), "placed": int64(9), "sequence": int64(3), "revisionSequence": int64(2),
		"limits": []any{
			map[string]any{
				"subset":         "",
				"update":         int64(4),
				"break":          int64(2),
				"add":            int64(0),
				"maxUnavailable": int64(2),
				"maxSurge":       int64(0),
			},
		},
		"policy": map[string]any{"kind": "FederationPolicy", "name": "everywhere"},
		"cells":  []any{cell("east", 5), cell("west", 4)},
	}
}

func work() map[string]any {
	manifest := object("api", cloneSet(map[string]any{"type": "RollingUpdate"}))
	manifest["apiVersion"], manifest["kind"] = "apps.kruise.io/v1beta1", "CloneSet"
	return map[string]any{
		"metadata": map[string]any{
			"name": "shop.api.cloneset", "namespace": "karmada-es-east",
			"labels": map[string]any{"topology.flotilla.dev/placement": "u"},
			"annotations": map[string]any{
				"topology.flotilla.dev/hub-id":   "hub",
				"topology.flotilla.dev/workload": "CloneSet/shop/api",
				"topology.flotilla.dev/sequence": "3",
			},
		},
		"spec": map[string]any{"workload": map[string]any{"manifests": []any{manifest}}},
		"status": map[string]any{
			"conditions": []any{condition("Applied", "Applied")},
			"report": map[string]any{
				"hubID":      "hub",
				"sequence":   int64(3),
				"epoch":      int64(1),
				"counter":    int64(5),
				"observedAt": "2026-01-01T00:00:00.000000Z",
				"inUse": []any{map[string]any{
					"subset": "", "desired": int64(5), "total": int64(5), "ready": int64(5), "available": int64(5),
					"updated": int64(5), "updatedReady": int64(5), "updatedAvailable": int64(5),
				}},
			},
		},
	}
}
