//go:build unix

package pgtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// configuration is what is appended to the server's configuration file. The
// first block is what makes a commit survive a kill. These are the server's
// defaults too; they stand here so that no other configuration can undo them.
func (c *cluster) configuration() string {
	settings := map[string]string{
		"fsync":              "on",
		"synchronous_commit": "on",
		"full_page_writes":   "on",
		"wal_level":          "replica",

		"autovacuum":      "on",
		"max_connections": "100",
		"shared_buffers":  "128MB",

		"listen_addresses":        "",
		"unix_socket_directories": c.dir,
		"port":                    fmt.Sprint(c.port),

		"logging_collector": "off", // the log is the supervisor's stderr
		"log_line_prefix":   "%m [%p] %a ",
		"timezone":          "UTC",
	}
	if c.launch.tcp {
		settings["listen_addresses"] = "127.0.0.1"
	}
	maps.Copy(settings, c.launch.settings)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return b.String()
}
