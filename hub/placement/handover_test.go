package placement

import (
	"encoding/json"
	"testing"
)

func TestValueAt(t *testing.T) {
	var tree any
	if err := json.Unmarshal([]byte(`{"status": {"updateRevision": "db-1", "replicas": 3, "nothing": null,
		"conditions": [{"type": "Ready", "status": "True"}, {"type": "Backup", "message": "b7"}], "x-y": {"a": ["$"]}}}`),
		&tree); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, want string
		ok         bool
	}{
		{"{.status.updateRevision}", "db-1", true},
		{"{.status.replicas}", "3", true},
		{`{.status.conditions[?(@.type=="Backup")].message}`, "b7", true},
		{`{.status.conditions[?(@.type=="Other")].message}`, "", false},
		{"{.status.conditions[0].type}", "Ready", true},
		{"{.status.conditions[9].type}", "", false},
		{"{.status.x-y}", `{"a":["$"]}`, true},
		{"{.status.x-y.a[0]}", "$", true},
		{"{.status.nothing}", "", false},
		{"{.status.missing.deeper}", "", false},
		{"{.status.replicas.deeper}", "", false},
		{"{.status", "", false},
	} {
		if got, ok := valueAt(tree, test.path); got != test.want || ok != test.ok {
			t.Errorf("%s is %q (%t), want %q (%t)", test.path, got, ok, test.want, test.ok)
		}
	}
}
