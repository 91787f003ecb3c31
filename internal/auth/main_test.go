package auth

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testkit.Main(m)) }
