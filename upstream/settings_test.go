package upstream_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/upstream"
)

// Errors name the variable to set. What they name exists.
func TestErrorsNameSettings(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	table := config.Table()
	named := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`UPSTREAM_[A-Z_]+`).FindAllString(string(source), -1) {
			named++
			if !strings.Contains(table, "`"+name+"`") {
				t.Errorf("%s names %s, which is no setting", file, name)
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d settings are named", named)
	}
}

func TestMechanismsAreTheSettings(t *testing.T) {
	_, _, err := config.Load([]string{"UPSTREAM_SASL_MECHANISM=none"})
	words := regexp.MustCompile(`UPSTREAM_SASL_MECHANISM="none" can't be used: accepted is (.*)`).FindStringSubmatch(err.Error())
	if words == nil {
		t.Fatal(err)
	}
	accepted := strings.Split(strings.ReplaceAll(words[1], " or ", ", "), ", ")
	var all []string
	for _, m := range upstream.Mechanisms() {
		all = append(all, string(m))
	}
	if strings.Join(accepted, " ") != strings.Join(all, " ") {
		t.Errorf("accepted are %v, upstream knows %v", accepted, all)
	}
}
