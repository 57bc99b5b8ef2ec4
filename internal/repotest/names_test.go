package repotest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// emptyNames say nothing about what a package is for.
var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "manager", "managers", "model", "models"}

// nameFaults reports a package that has such a name, by clause or by directory.
func nameFaults(s source) []string {
	var faults []string
	for _, name := range []string{strings.TrimSuffix(s.ast.Name.Name, "_test"), path.Base(s.dir())} {
		if slices.Contains(emptyNames, name) {
			faults = append(faults, fmt.Sprintf("%s: a package named %s says nothing", s.path, name))
		}
	}
	return faults
}

func TestPackageNamesSayWhatTheyAreFor(t *testing.T) {
	sources := repo(t).sources
	for _, s := range sources {
		report(t, nameFaults(s))
	}
	if len(sources) == 0 {
		t.Error("no file was seen")
	}
}

func TestNameRuleFindsEmptyNames(t *testing.T) {
	wantFaults(t, nameFaults(made(t, "internal/lease/lease.go", "package lease")))
	wantFaults(t, nameFaults(made(t, "internal/lease/lease.go", "package helper")), "named helper")
	wantFaults(t, nameFaults(made(t, "internal/util/lease.go", "package lease")), "named util")
	wantFaults(t, nameFaults(made(t, "model/a_test.go", "package model_test")), "named model", "named model")
}
