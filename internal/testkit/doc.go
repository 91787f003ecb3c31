// Package testkit starts the real things that tests need and breaks them on purpose: throwaway Redis and MariaDB
// servers, proxies that lose what a network can lose, and tierq itself as a separate process. Product code never
// imports it.
//
// Every server started here runs on a free 127.0.0.1 port, in its own temporary folder, and dies with the test process,
// even when that one is killed with SIGKILL. A server that the kit did not start (TEST_REDIS_URL, TEST_MYSQL_DSN) is
// never flushed, stopped or reconfigured.
//
// A package that uses SharedRedis, SharedMariaDB, StartBrowser or BuildTierq ends its tests with StopShared:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(testkit.Main(m)) }
package testkit
