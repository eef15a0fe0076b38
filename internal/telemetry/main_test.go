package telemetry_test

import (
	"os"
	"testing"

	"github.com/onceward/onceward/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
