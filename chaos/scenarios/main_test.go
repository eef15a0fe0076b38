package scenarios

import (
	"os"
	"testing"

	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
)

func TestMain(m *testing.M) {
	os.Exit(apptest.Main(func() int { return pgtest.Main(m) }))
}
