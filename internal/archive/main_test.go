package archive_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/testkit"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testkit.Main(m),
		// GORM's cache of prepared statements starts a goroutine that nothing can end; two per archive.
		goleak.IgnoreAnyFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}
