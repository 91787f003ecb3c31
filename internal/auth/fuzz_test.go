package auth

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/fuzz"
)

// A key has exactly one text: Parse accepts only texts that Mint could have made.
func FuzzParse(f *testing.F) {
	f.Attr("proves", "A04 A08")
	id, secret, minted := Mint()
	fuzz.Text(f, func(t *testing.T, text string) {
		if got, ok := bearer([]string{text}); ok && (len(got) != len(text)-len("Bearer ") || !strings.HasSuffix(text, got)) {
			t.Errorf("%q is shown", got)
		}
		gotID, gotSecret, ok := Parse(text)
		if !ok {
			if gotID != "" || gotSecret != "" {
				t.Errorf("refused, and read as %q, %q", gotID, gotSecret)
			}
			return
		}
		if prefix+gotID+"_"+gotSecret != text || len(text) != textLen || strings.Trim(gotID, idAlphabet) != "" {
			t.Errorf("read as %q, %q", gotID, gotSecret)
		}
		bytes, err := secretCoding.DecodeString(gotSecret)
		if err != nil || len(bytes) != 32 || secretCoding.EncodeToString(bytes) != gotSecret {
			t.Errorf("the secret %q has another text: %v", gotSecret, err)
		}
		if Hash(gotSecret) == Hash(secret) && (gotID != id || gotSecret != secret) && gotSecret != secret {
			t.Error("it opens what another opens")
		}
	}, minted, "Bearer "+minted, strings.ToUpper(minted), minted+"=", minted[:len(minted)-1], minted+"\n",
		"tq_"+id+"_"+strings.Repeat("A", 42)+"B", "tq__", "", "tq_"+strings.Repeat("1", 16)+"_"+secret,
		"bearer  "+minted, "Basic "+minted)
}
