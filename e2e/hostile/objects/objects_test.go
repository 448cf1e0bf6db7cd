package objects

import (
	"bytes"
	"testing"
)

func TestNext(t *testing.T) {
	a, err := New(7)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(7)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for range 3000 {
		one, other := a.Next(), b.Next()
		if !bytes.Equal(one.JSON, other.JSON) {
			t.Fatalf("one seed makes two objects:\n%s\n%s", one.JSON, other.JSON)
		}
		seen[one.APIVersion+" "+one.Kind]++
	}
	least := 3000 / len(a.Kinds()) * 2 / 3
	for _, kind := range a.Kinds() {
		if seen[kind] < least {
			t.Errorf("%d of 3000 objects are of %s", seen[kind], kind)
		}
	}
}
