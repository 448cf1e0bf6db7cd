package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	t.Setenv("KUBECONFIG", os.DevNull) // nobody's own clusters
	nothing := t.TempDir()
	for _, test := range []struct {
		args string
		want int
	}{
		{"version", 0},
		{"--version", 0},
		{"try", 0},
		{"try down --dir " + nothing + "/none", 0},
		{"try status --dir " + nothing, exitFailed},
		{"try nope", exitUsage},
		{"nope", exitUsage},
		{"try up --nope", exitUsage},
		{"try stop", exitUsage},
		{"try down more", exitUsage},
		{"rollout", 0},
		{"rollout nope", exitUsage},
		{"rollout nope clone/api", exitUsage},
		{"rollout nope clone/api -n shop", exitUsage},
		{"token nope", exitUsage},
		{"completion", 0},
		{"completion nope", exitUsage},
		{"why", exitUsage},
		{"why api", exitUsage},
		{"why pod/api", exitUsage},
		{"tree clone/api -A", exitUsage},
		{"tree -o xml", exitUsage},
		{"tree -l ===", exitUsage},
		{"plan", exitUsage},
		{"plan -f " + nothing + "/none --members " + nothing + "/none", exitFailed},
		{"logs api-1", exitUsage},
		{"exec -C east api-1 ls", exitUsage},
		{"logs -C east api-1 --kubeconfig " + nothing + "/none", exitFailed},
		{"sysdump more", exitUsage},
		{"sysdump --kubeconfig " + nothing + "/none -O " + nothing + "/dump.tar.gz", exitFailed},
		{"tree --kubeconfig " + nothing + "/none", exitFailed},
		{"why clone api", exitUsage},
		{"plan web.yaml", exitUsage},
		{"drain", exitUsage},
		{"get cluters", exitUsage},
	} {
		if got := run(t.Context(), strings.Fields(test.args)); got != test.want {
			t.Errorf("flotilla %s: exit code %d, want %d", test.args, got, test.want)
		}
	}
}

func TestVersion(t *testing.T) {
	var said []string
	for _, args := range []string{"version", "--version"} {
		out := &strings.Builder{}
		command := newCommand(out)
		command.SetArgs([]string{args})
		if err := command.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		said = append(said, out.String())
	}
	if said[0] != said[1] || !strings.HasPrefix(said[0], "v") || strings.Count(said[0], "\n") != 1 {
		t.Errorf("version says %q, --version %q", said[0], said[1])
	}
}

// TestCompletionScripts holds that each shell gets a script, under the name of the program and as a plugin of kubectl.
func TestCompletionScripts(t *testing.T) {
	for shell, want := range map[string]string{"bash": "__start_flotilla flotilla", "zsh": "#compdef flotilla",
		"fish": "complete -c flotilla", "powershell": "-CommandName 'flotilla'"} {
		out := &strings.Builder{}
		command := newCommand(out)
		command.SetArgs([]string{"completion", shell})
		if err := command.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, without %q:\n%.300s", shell, err, want, out.String())
		}
	}
}

// TestCompleter holds that kubectl, which asks a program kubectl_complete-flotilla, gets what the shells' scripts get.
func TestCompleter(t *testing.T) {
	for _, test := range []struct {
		called string
		args   []string
		want   string
	}{
		{"/usr/bin/kubectl_complete-flotilla", []string{"rollout", "st"},
			"status\tSay how far a rollout is, or wait for its end\n:4\n"},
		{"kubectl_complete-flotilla.exe", []string{"tree", "-o", ""}, "text\njson\nyaml\n:4\n"},
		{"kubectl-flotilla", []string{"__complete", "tree", "-o", ""}, "text\njson\nyaml\n:4\n"},
	} {
		out := &strings.Builder{}
		command := newCommand(out)
		command.SetArgs(arguments(test.called, test.args))
		if err := command.ExecuteContext(t.Context()); err != nil || out.String() != test.want {
			t.Errorf("%s %q says %q (%v), want %q", test.called, test.args, out.String(), err, test.want)
		}
	}
}

// TestMistakes holds that a command line that is wrong is answered with how it is written, or with what was perhaps
// meant.
func TestMistakes(t *testing.T) {
	t.Setenv("KUBECONFIG", os.DevNull) // nobody's own clusters
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for args, want := range map[string]string{
		"why clone api":       "write clone/api, as in flotilla why KIND/NAME",
		"why":                 "something is missing: write flotilla why KIND/NAME",
		"plan web.yaml":       `"web.yaml" cannot be read: write flotilla plan -f FILE`,
		"drain":               "write flotilla drain MEMBER",
		"get clusers":         "did you mean clusters?",
		"rollout stats":       "did you mean status?",
		"rollout nope":        "there is approve, diff, history",
		"qux":                 `flotilla has no verb "qux"; there is accept, adopt, check`,
		"rolout":              "did you mean rollout?",
		"rollout nope x -n y": `flotilla rollout has no verb "nope"`,
		"rollout --nope":      "unknown flag: --nope",
		"tree":                "name the hub's with --kubeconfig or KUBECONFIG",
		"get clusters":        "name the hub's with --kubeconfig or KUBECONFIG",
		"rollout pause clone": "write KIND/NAME, as in ud/web",
	} {
		command := newCommand(io.Discard)
		command.SetArgs(strings.Fields(args))
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("flotilla %s: %v, want %q", args, err, want)
		}
	}
}

// TestHelp holds that the help of a verb lists its own flags, and those of a connection in one sentence, which are
// completed all the same.
func TestHelp(t *testing.T) {
	say := func(args ...string) string {
		out := &strings.Builder{}
		command := newCommand(out)
		command.SetArgs(args)
		if err := command.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	help := say("why", "--help")
	for _, want := range []string{"-C, --member", "--context", "--kubeconfig", "-n, --namespace",
		"Also kubectl's flags for a connection", "--as-user-extra"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help of why lacks %q:\n%s", want, help)
		}
	}
	if strings.Contains(help, "the server's certificate will not") || strings.Contains(help, "Bearer token") {
		t.Errorf("the help of why explains flags of a connection:\n%s", help)
	}
	if completed := say("__complete", "why", "--insecure"); !strings.Contains(completed, "--insecure-skip-tls-verify") {
		t.Errorf("a flag of a connection is not completed:\n%s", completed)
	}
}
