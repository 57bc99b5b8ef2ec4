package console

import (
	"net/http"
	"net/http/cookiejar"
)

func newJar() http.CookieJar {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // it never is one
	}
	return jar
}
