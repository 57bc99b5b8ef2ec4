// Package console is the web console: what operators look at and decide with, in
// a browser, on top of package operator. Begin with [New]; what it returns is an
// [http.Handler] that can be mounted at any path.
//
//	c, err := console.New(store, &console.Options{Users: users})
//	mux.Handle("/consign/", http.StripPrefix("/consign", c))
//
// It is closed by default. Only this machine is let in; nobody is signed in
// without a one-time link ([Console.SignInLink]), a password, an identity from a
// trusted proxy or from the program itself; what an intent says is shown only to
// those who may see it, and each look is audited.
//
// Pages are made on the server and work without script. The script adds live
// numbers and keys. Nothing is loaded from elsewhere.
//
// An outcome that nobody knows is called unknown on every page.
package console
