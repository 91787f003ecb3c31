module github.com/tierq/tierq/compat

go 1.26.0

replace (
	github.com/tierq/tierq => ../
	github.com/tierq/tierq/client => ../client
)

require (
	github.com/contribsys/faktory v1.9.4
	github.com/contribsys/faktory_worker_go v1.7.0
	github.com/tierq/tierq v0.0.0-00010101000000-000000000000
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/chromedp/cdproto v0.159.0 // indirect
	github.com/chromedp/chromedp v0.22.1 // indirect
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/go-sql-driver/mysql v1.10.1 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
