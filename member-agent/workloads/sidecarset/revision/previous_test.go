package revision_test

import (
	"strings"
	"testing"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/sidecars"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

// TestPrevious: what the hub keeps of the previous revision has the hashes that pods of it have.
func TestPrevious(t *testing.T) {
	set := &v1beta1.SidecarSet{}
	if content, err := revision.Previous(set); content != nil || err != nil {
		t.Errorf("without the annotation %v, %v", content, err)
	}
	old := spec(t, defaulted)
	text, err := sidecars.Canonical(sidecars.ContentOf(old))
	if err != nil {
		t.Fatal(err)
	}
	set.Annotations = map[string]string{v1alpha1.AnnotationTemplateBefore: string(text)}
	content, err := revision.Previous(set)
	if err != nil {
		t.Fatal(err)
	}
	want, err := revision.HashesOf(old)
	if err != nil {
		t.Fatal(err)
	}
	got, err := revision.HashesOf(content.In(spec(t, `{"containers":[{"name":"side","image":"other"}]}`)))
	if err != nil || got != want {
		t.Errorf("hashes %v, want %v: %v", got, want, err)
	}
	for text, says := range map[string]string{
		"5": "decode", "null": "it is null", "{}": "it has no containers", "": "decode",
	} {
		set.Annotations[v1alpha1.AnnotationTemplateBefore] = text
		if content, err := revision.Previous(set); content != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v", text, content, err)
		}
	}
}
