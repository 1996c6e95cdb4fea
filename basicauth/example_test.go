package basicauth_test

import (
	"expvar"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

	"example.com/bcrypt/basicauth"
)

// users are who may pass in these examples: ann, with the password "U*U".
var users = func() *basicauth.Users {
	users, err := basicauth.NewUsers(map[string]string{"ann": "$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"})
	if err != nil {
		log.Fatal(err)
	}
	return users
}()

// show prints what a handler answers with and without ann's password.
func show(handler http.Handler, path string) {
	for _, password := range []string{"wrong", "U*U"} {
		r := httptest.NewRequest("GET", path, nil)
		r.SetBasicAuth("ann", password)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body)
	}
}

// Users from htpasswd -B, around a whole server.
func ExampleAuth() {
	file, err := basicauth.OpenFile("testdata/htpasswd")
	if err != nil {
		log.Fatal(err)
	}
	auth := &basicauth.Auth{Users: file, Realm: "metrics"}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _ := basicauth.Name(r.Context())
		fmt.Fprintf(w, "hello %s", name)
	})

	show(auth.Handler(hello), "/")
	// Output:
	// 401 Wrong name or password.
	//
	// 200 hello ann
}

// A part of a mux is protected, and the rest is not.
func ExampleAuth_mux() {
	auth := &basicauth.Auth{Users: users}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "open") })
	mux.Handle("/admin/", auth.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "admin") })))

	show(mux, "/")
	show(mux, "/admin/x")
	// Output:
	// 200 open
	// 200 open
	// 401 Wrong name or password.
	//
	// 200 admin
}

// Routers such as chi take a func(http.Handler) http.Handler: router.Use(auth.Handler).
func ExampleAuth_middleware() {
	auth := &basicauth.Auth{Users: users}
	var use func(http.Handler) http.Handler = auth.Handler

	show(use(http.NotFoundHandler()), "/")
	// Output:
	// 401 Wrong name or password.
	//
	// 404 404 page not found
}

// A reverse proxy lets only users through, and does not pass their passwords on.
func ExampleAuth_reverseProxy() {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s, password sent: %t", r.Header.Get("X-User"), r.Header.Get("Authorization") != "")
	}))
	defer backend.Close()
	target, err := url.Parse(backend.URL)
	if err != nil {
		log.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization")
		name, _ := basicauth.Name(r.In.Context())
		r.Out.Header.Set("X-User", name)
	}}
	auth := &basicauth.Auth{Users: users}

	show(auth.Handler(proxy), "/")
	// Output:
	// 401 Wrong name or password.
	//
	// 200 ann, password sent: false
}

func ExampleAuth_Stats() {
	auth := &basicauth.Auth{Users: users}
	expvar.Publish("basicauth", expvar.Func(func() any { return auth.Stats() }))
}
