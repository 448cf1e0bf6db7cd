package wire

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	key := Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	if got := key.Work("east").String(); got != "karmada-es-east/shop.web.cloneset" {
		t.Errorf("Work %s", got)
	}
	if got := key.Placement().String(); got != "shop/cloneset-web" {
		t.Errorf("placement %s", got)
	}
	if again, ok := ParseKey(key.String()); !ok || again != key {
		t.Errorf("read back %+v", again)
	}
	if _, ok := ParseKey("shop/web"); ok {
		t.Error("a text without a kind is read as a key")
	}
	long := Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: strings.Repeat("a", 250)}
	other := Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: strings.Repeat("a", 249) + "b"}
	if name := long.Work("east").Name; len(name) != MaxName || name == other.Work("east").Name ||
		name != long.Work("west").Name {
		t.Errorf("a long name is cut to %q", name)
	}
	if name := long.Placement().Name; len(name) != MaxName || name == other.Placement().Name ||
		!strings.HasPrefix(name, "cloneset-aaa") {
		t.Errorf("the placement of a long name is called %q", name)
	}
	if name, ok := MemberOf("karmada-es-east"); !ok || name != "east" {
		t.Errorf("member %q", name)
	}
}
