package outbound

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// names is a DNS server. Each lookup of a name's A records returns the name's next list of addresses; the last
// list repeats. A list may begin with another name: >other.example makes the name an alias, whose addresses
// follow.
type names struct {
	mu      sync.Mutex
	answers map[string][]string // by name: lists of addresses, separated by spaces
	asked   map[string]int
}

// serve answers on a free port and makes the client look names up there.
func (n *names) serve(t *testing.T, c *Client) {
	t.Helper()
	n.asked = map[string]int{}
	at, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 1500)
		for {
			l, from, err := at.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = at.WriteTo(n.answer(query[:l]), from)
		}
	}()
	t.Cleanup(func() { _ = at.Close(); <-done })
	c.dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", at.LocalAddr().String())
	}}
}

const (
	recordA, recordCNAME, recordAAAA = 1, 5, 28
	question                         = "\xc0\x0c" // the name of the question, by its place in the message
)

func (n *names) answer(query []byte) []byte {
	var labels []string
	end := 12
	for l := int(query[end]); l > 0; l = int(query[end]) {
		labels = append(labels, string(query[end+1:end+1+l]))
		end += 1 + l
	}
	end += 5 // the root label, type and class
	kind := binary.BigEndian.Uint16(query[end-4:])
	reply := append([]byte(nil), query[:end]...)
	copy(reply[2:12], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	list, known := n.next(strings.ToLower(strings.Join(labels, ".")), kind)
	if !known {
		reply[3] = 0x83 // no such name
	}
	owner := []byte(question)
	add := func(kind uint16, data []byte) {
		reply = append(reply, owner...)
		reply = binary.BigEndian.AppendUint16(reply, kind)
		reply = append(reply, 0, 1, 0, 0, 0, 0)
		reply = binary.BigEndian.AppendUint16(reply, uint16(len(data)))
		reply = append(reply, data...)
		reply[7]++
	}
	for _, entry := range list {
		if alias, ok := strings.CutPrefix(entry, ">"); ok {
			target := wire(alias)
			add(recordCNAME, target)
			owner = target
			continue
		}
		a := netip.MustParseAddr(entry)
		if a.Is4() && kind == recordA {
			add(recordA, a.AsSlice())
		} else if a.Is6() && kind == recordAAAA {
			add(recordAAAA, a.AsSlice())
		}
	}
	return reply
}

// wire encodes a name for a DNS message.
func wire(name string) (b []byte) {
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0)
}

func (n *names) next(name string, kind uint16) (list []string, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lists, known := n.answers[name]
	if !known {
		return nil, false
	}
	i := min(n.asked[name], len(lists)-1)
	if kind == recordA {
		n.asked[name]++
	}
	return strings.Fields(lists[i]), true
}
