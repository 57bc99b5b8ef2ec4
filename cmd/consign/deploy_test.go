package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// deployed reads a file of deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// understood wants the command to know a command line; nothing of it is done.
func understood(t *testing.T, file string, args []string) {
	t.Helper()
	if r := newPlace(t).run(t, "", append(args, "--help")...); r.code != 0 || !strings.Contains(r.out, "consign "+args[0]) {
		t.Errorf("%s runs %q: exit code %d\n%s", file, args, r.code, r.err)
	}
}

// TestDeployedFilesNameFlagsThatExist: of the unit, the image and the manifests.
func TestDeployedFilesNameFlagsThatExist(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, m := range regexp.MustCompile(`(?m)^Exec\w+=/usr/local/bin/consign (.+)$`).FindAllStringSubmatch(deployed(t, "systemd/consign.service"), -1) {
		understood(t, "consign.service", strings.Fields(m[1]))
		seen++
	}
	manifest := deployed(t, "kubernetes/consign.yaml")
	for _, m := range regexp.MustCompile(`args: \[(.+)\]`).FindAllStringSubmatch(manifest, -1) {
		understood(t, "consign.yaml", strings.Split(m[1], ", "))
		seen++
	}
	image := deployed(t, "Dockerfile")
	for _, m := range regexp.MustCompile(`CMD \["(\w+)"\]`).FindAllStringSubmatch(image, -1) {
		understood(t, "Dockerfile", []string{m[1]})
		seen++
	}
	help := newPlace(t).must(t, "serve", "--help")
	for _, name := range regexp.MustCompile(`CONSIGN_\w+`).FindAllString(image+manifest, -1) {
		if !strings.Contains(help, "("+name+")") {
			t.Errorf("there is no variable %s", name)
		}
		seen++
	}
	if seen < 8 {
		t.Errorf("only %d places were seen", seen)
	}
}

// TestDeployedConfigurationIsAccepted: the one of the manifest, and its paths are
// served.
func TestDeployedConfigurationIsAccepted(t *testing.T) {
	t.Parallel()
	manifest := deployed(t, "kubernetes/consign.yaml")
	_, text, ok := strings.Cut(manifest, "consign.toml: |\n")
	text, _, _ = strings.Cut(text, "---")
	if !ok {
		t.Fatal("the manifest has no configuration")
	}
	p := newPlace(t)
	p.config(t, strings.ReplaceAll(text, "\n    ", "\n"))
	if r := p.run(t, "", "migrate", "sql"); r.code != 0 {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	d := newPlace(t).serve(t)
	paths := regexp.MustCompile(`path: (/\w+)`).FindAllStringSubmatch(manifest, -1)
	for _, m := range paths {
		if code, _ := d.get(m[1]); code != 200 {
			t.Errorf("%s answers %d", m[1], code)
		}
	}
	if len(paths) != 2 {
		t.Errorf("%d paths", len(paths))
	}
	d.stop()
	if !json.Valid([]byte(deployed(t, "grafana/consign.json"))) {
		t.Error("the dashboard is no JSON")
	}
}
