package job

import "testing"

func TestHeldLease(t *testing.T) {
	for _, name := range []string{"a jid", "", " ", "x\ny"} {
		h := HeldLease{Field: HeldField("id", 3), Sealed: "v1.x", Name: name}
		if got, ok := ReadHeldLease("id:3", h.Text()); !ok || got != h {
			t.Errorf("%q: %+v, %v", name, got, ok)
		}
	}
	for _, text := range []string{"", "v1.x", " name"} {
		if h, ok := ReadHeldLease("f", text); ok {
			t.Errorf("%q is %+v", text, h)
		}
	}
}

func TestIsForeignTypeName(t *testing.T) {
	for name, is := range map[string]bool{
		"Foo::Bar": true, "app.tasks.add": true, "a-b/c": true, "SEND_EMAIL": true, "x1": true, "": false, "1x": false,
		"a b": false, "a\n": false, "ä": false, "a@b": false, string(make([]byte, 101)): false,
	} {
		if IsForeignTypeName(name) != is {
			t.Errorf("%q: %v", name, !is)
		}
	}
}
