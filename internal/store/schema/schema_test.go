package schema

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

func TestVersionIsTheNewestMigration(t *testing.T) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	testkit.Must(t, err)
	newest := 19 // in Go
	for _, f := range files {
		number, _, _ := strings.Cut(filepath.Base(f), "_")
		newest = max(newest, testkit.Value(strconv.Atoi(number))(t))
	}
	if newest != Version {
		t.Errorf("the newest migration is %d, Version is %d", newest, Version)
	}
}
