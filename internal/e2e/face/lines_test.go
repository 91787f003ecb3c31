package face

import (
	"net/http"
	"testing"
)

// Without scripts a key gets limits, is paused and resumed. A user whose change comes second is told so, and keeps the
// typed values.
func TestWithoutScripts_AKey(t *testing.T) {
	t.Parallel()
	type limits struct {
		Running, Version int
		Strict           bool
		Paused           *struct{ Reason string }
	}
	s := newKeyedSite(t)
	stored := func() limits {
		var now struct{ Limits limits }
		s.want(http.StatusOK, &now, http.MethodGet, "/admin/lines?key=shop+7", "")
		return now.Limits
	}
	const store = "button[name=do][value=store]"
	tab := plain(t)
	login(tab, s, theAdmin)
	tab.Allow("/dashboard/lines/key: 400 ", "/dashboard/lines/key: 412 ")
	tab.Open(s.base + "/dashboard/tiers")
	tab.Click("a[href='/dashboard/lines']")
	tab.Type("#l-key", "shop 7")
	tab.Click(".filters button")
	tab.Type("#running", "many")
	tab.Click(store)
	tab.WaitText(".wrong", "running", alive)
	seen(t, tab, "a field that is wrong")
	tab.Type("#running", "2")
	tab.Click("input[name=strict]")
	tab.Click(store)
	tab.WaitText("main > .note", "The limits of the key are stored", alive)
	if now := stored(); now.Running != 2 || !now.Strict || now.Version != 1 {
		t.Errorf("stored is %+v", now)
	}
	s.want(http.StatusOK, nil, http.MethodPut, "/admin/lines?key=shop+7", `{"running":5}`)
	tab.Type("#running", "3")
	tab.Click(store)
	tab.WaitText("main > .note", "Another caller changed these limits", alive)
	seen(t, tab, "what another caller stored")
	tab.Click(store)
	tab.WaitText("main > .note", "The limits of the key are stored", alive)
	if now := stored(); now.Running != 3 || now.Version != 3 {
		t.Errorf("stored is %+v", now)
	}
	tab.Type("#reason", "a fire")
	tab.Type("#minutes", "30")
	tab.Click("button[name=do][value=pause]")
	tab.WaitText("main > .note", "The key is paused", alive)
	if now := stored(); now.Paused == nil || now.Paused.Reason != "a fire" || now.Running != 3 {
		t.Errorf("paused is %+v", now)
	}
	tab.Click("button[name=do][value=resume]")
	tab.WaitText("main > .note", "The key is resumed", alive)
	if now := stored(); now.Paused != nil || now.Running != 3 {
		t.Errorf("resumed is %+v", now)
	}
}
