package page

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConsole(t *testing.T) {
	const text = "# Title\n\n```console\n$ export A=b\n```\n\n## First\n\n" +
		"```console\n$ kubectl patch web -p '[\n    {\"op\":\"add\"}]'\nweb patched\n" +
		"$ flotilla tree \\\n  -n shop\nWORKLOAD\n```\n" +
		"```sh\nnot this\n```\n## Second\n```\n$ nor this\n```\n```console\n$ echo \"it's\"\n```\n"
	want := []Line{
		{"", "export A=b"}, {"First", "kubectl patch web -p '[\n    {\"op\":\"add\"}]'"},
		{"First", "flotilla tree \\\n  -n shop"}, {"Second", `echo "it's"`},
	}
	if diff := cmp.Diff(want, console(text)); diff != "" {
		t.Error(diff)
	}
}
