package access_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/testkit"
)

// TestMain lets more tests run at once than there are processors, because they wait for databases most of the time.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil { // -parallel still wins
		panic(err)
	}
	goleak.VerifyTestMain(testkit.Main(m))
}
