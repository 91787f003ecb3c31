// Package testkit starts the real servers that tests need and breaks them on purpose: throwaway Redis and MariaDB
// servers, proxies that lose what a network can lose, and tierq itself as a separate process. Product code never
// imports it.
//
// Every server started here runs on a free 127.0.0.1 port, in its own temporary folder, and dies with the test
// process, even when SIGKILL ends that process. The kit never flushes, stops or reconfigures a server that it did
// not start (TEST_REDIS_URL, TEST_MYSQL_DSN).
//
// A package that uses SharedRedis, SharedMariaDB, StartBrowser or BuildTierq ends its tests with StopShared:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(testkit.Main(m)) }
package testkit
