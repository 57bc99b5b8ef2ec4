// Package browsertest is the console in a real browser: each flow and role, keys, two
// people at once, sessions that end, hostile and right-to-left texts, without script,
// and axe-core on every page in both themes. It is a module of its own, so that the
// library does not depend on what drives the browser.
//
// Chromium is looked for in PATH (chromium, chromium-browser, google-chrome), and npm
// fetches axe-core into a temporary folder; where one of them is missing, the tests
// fail.
package browsertest
