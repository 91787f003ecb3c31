package client

import (
	"os"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m).Run()) }
