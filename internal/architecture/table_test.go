// Package architecture holds the import table: which room may import which other rooms, and which library belongs
// to which room. Only its tests read the table.
package architecture

// room is one row: a folder and the packages that its files may import besides the standard library and the room
// itself. Subfolders belong to the room unless they have a row of their own.
type room struct {
	dir      string
	rooms    []string            // tierq's own
	libs     []string            // foreign, with all packages below
	inFile   map[string][]string // more libraries, in one file only
	inTests  []string            // more rooms and libraries, in _test.go files only
	std      []string            // the allowed part of the standard library; nil = all
	testOnly bool                // only _test.go files and test-only rooms may import it
}

// Short names for the table.
const (
	job       = "internal/job"
	handler   = "internal/handler"
	failpoint = "internal/failpoint"
	loops     = "internal/loop"
	database  = "internal/database"
	testkit   = "internal/testkit"

	cobra      = "github.com/spf13/cobra"
	pflag      = "github.com/spf13/pflag"
	env        = "github.com/caarlos0/env"
	godotenv   = "github.com/joho/godotenv"
	goRedis    = "github.com/redis/go-redis"
	miniredis  = "github.com/alicebob/miniredis"
	gorm       = "gorm.io"
	goose      = "github.com/pressly/goose"
	mysql      = "github.com/go-sql-driver/mysql"
	sqlite     = "github.com/ncruces/go-sqlite3"
	gin        = "github.com/gin-gonic/gin"
	uuid       = "github.com/google/uuid"
	json       = "github.com/go-json-experiment/json"
	compose    = "github.com/compose-spec/compose-go"
	fakeS3     = "github.com/johannesboyne/gofakes3"
	fpdf       = "codeberg.org/go-pdf/fpdf"
	goImage    = "golang.org/x/image"
	goText     = "golang.org/x/text"
	protobuf   = "google.golang.org/protobuf"
	pdfReader  = "github.com/ledongthuc/pdf"
	mail       = "github.com/wneessen/go-mail"
	smtp       = "github.com/emersion/go-smtp"
	sasl       = "github.com/emersion/go-sasl"
	webhooks   = "github.com/standard-webhooks/standard-webhooks"
	prom       = "github.com/prometheus"
	otel       = "go.opentelemetry.io"
	jsonSchema = "github.com/santhosh-tekuri/jsonschema"
	yaml       = "github.com/oasdiff/yaml"
	openapi    = "github.com/getkin/kin-openapi"
	cronParser = "github.com/robfig/cron"
	xterm      = "golang.org/x/term"
	http2      = "golang.org/x/net/http2"
	chromium   = "github.com/chromedp"
	webSocket  = "golang.org/x/net/websocket"
	netHTML    = "golang.org/x/net/html"
	luaEngine  = "github.com/yuin/gopher-lua"
)

// table lists the rooms. A room may import internal/job (and the failpoints and loops), but no other room. The
// rooms that run a handler, or act for one, may also import internal/handler, and the rooms that have rows in SQL
// internal/database. Only app imports all rooms, and cmd imports app. So a library can be replaced by rewriting
// one room, and a room is tested without the others.
var table = []room{
	{dir: "lua", std: []string{"embed", "io/fs", "slices", "strconv", "strings"}},
	{dir: job},
	{dir: handler, rooms: []string{job}, libs: []string{json}},
	{dir: failpoint, rooms: []string{job}},
	{dir: loops, rooms: []string{}},

	{dir: "internal/queue", rooms: []string{job, failpoint, "lua"}, libs: []string{goRedis}},
	{dir: database, rooms: []string{job, failpoint}, libs: []string{gorm, goose, mysql, sqlite}},
	{
		dir: "internal/archive", rooms: []string{job, loops, failpoint, database}, libs: []string{gorm},
		inTests: []string{goose, mysql},
	},
	{dir: "internal/access", rooms: []string{job, database}, libs: []string{gorm}},
	{
		dir:     "internal/admission",
		rooms:   []string{job, loops, failpoint},
		libs:    []string{uuid},
		inTests: []string{"internal/queue", handler},
	},
	{
		dir: "internal/worker", rooms: []string{job, handler, loops, failpoint},
		inTests: []string{"internal/queue", "internal/queue/queuetest"},
	},
	{
		dir: "internal/leasing", rooms: []string{job, loops},
		inTests: []string{"internal/queue", "internal/queue/queuetest"},
	},
	{dir: "internal/push", rooms: []string{job, handler, loops}},
	{dir: "internal/faktory", rooms: []string{job, loops}, inTests: []string{"internal/fuzz"}},
	{dir: "internal/recovery", rooms: []string{job, loops, failpoint}},
	{
		dir:     "internal/handlers",
		rooms:   []string{job, handler, failpoint},
		libs:    []string{fpdf, goText},
		inTests: []string{pdfReader, goImage},
	},
	{dir: "internal/ledger", rooms: []string{job, failpoint}},
	{dir: "internal/events", rooms: []string{job, loops}},
	{dir: "internal/outbound", rooms: []string{handler}, inTests: []string{webhooks}},
	{dir: "internal/artifact", rooms: []string{job}, inTests: []string{fakeS3, handler}},
	{dir: "internal/mail", rooms: []string{job, handler}, libs: []string{mail}, inTests: []string{smtp, sasl}},
	{
		dir: "internal/telemetry", rooms: []string{job, handler, loops},
		libs: []string{prom, otel}, inTests: []string{protobuf},
	},
	{
		dir: "internal/schedule", rooms: []string{job, loops, failpoint}, libs: []string{cronParser},
		inTests: []string{"internal/archive", "internal/archive/archivetest"},
	},
	{dir: "internal/schema", rooms: []string{job}, libs: []string{jsonSchema, goText}},
	{
		dir:     "internal/httpapi",
		rooms:   []string{job, loops, failpoint},
		libs:    []string{gin, json},
		inTests: []string{http2, handler, "internal/schema"},
	},
	{dir: "internal/auth", rooms: []string{job, loops}, libs: []string{goText}, inTests: []string{"internal/queue"}},
	{dir: "internal/pages", rooms: []string{job, loops, "web", "client"}, inTests: []string{netHTML}},
	{
		dir: "internal/sandbox",
		rooms: []string{
			job, handler, loops, "internal/queue", "internal/admission", "internal/worker", "internal/recovery",
		},
		inFile: map[string][]string{"redis.go": {miniredis}},
	},
	{dir: "internal/embedded", rooms: []string{loops}, libs: []string{miniredis}},
	{dir: "internal/config", rooms: []string{job}, libs: []string{env, godotenv}},

	{
		dir: "internal/app",
		rooms: []string{
			job, handler, loops, failpoint,
			"internal/queue", database, "internal/archive", "internal/access", "internal/admission", "internal/worker",
			"internal/leasing", "internal/push", "internal/recovery", "internal/handlers", "internal/httpapi",
			"internal/schema", "internal/schedule", "internal/config", "internal/ledger", "internal/faktory",
			"internal/events", "internal/outbound", "internal/artifact",
			"internal/mail", "internal/telemetry", "internal/auth", "internal/pages", "internal/sandbox", "internal/embedded",
			"docs", "web",
		},
		inTests: []string{"lua", goRedis, mysql},
	},
	{
		dir: "cmd/tierq", rooms: []string{"internal/app", "internal/config", "client"},
		libs: []string{cobra, pflag, xterm, yaml},
	},
	{dir: "client"},
	{dir: "worker"},
	{dir: "server", rooms: []string{"internal/app", "internal/config", handler}},
	{dir: "examples", rooms: []string{"client", "worker"}, testOnly: true}, // the Go example is a module of its own
	{dir: "web", std: nil},
	{dir: "docs", std: []string{"embed"}},

	{dir: testkit, libs: []string{goRedis, mysql, chromium, webSocket}, testOnly: true},
	{
		dir: "internal/queue/queuetest", rooms: []string{job, "internal/queue", "lua", testkit},
		libs: []string{goRedis, miniredis, "pgregory.net/rapid"}, testOnly: true,
	},
	{
		dir: "internal/database/databasetest", rooms: []string{database, testkit},
		libs: []string{gorm, mysql, sqlite, "github.com/google/go-cmp"}, testOnly: true,
	},
	{
		dir:   "internal/archive/archivetest",
		rooms: []string{"internal/archive", database, "internal/database/databasetest"}, testOnly: true,
	},
	{
		dir: "internal/e2e",
		inTests: []string{
			job, handler, "internal/queue", "internal/worker", "lua", "client",
			goRedis, mysql, sqlite, goose, webhooks, pdfReader, smtp, sasl, otel, protobuf,
		},
		testOnly: true,
	},
	{
		dir: "internal/sim", testOnly: true,
		rooms: []string{
			job,
			handler,
			loops,
			"lua",
			"internal/admission",
			"internal/queue",
			"internal/queue/queuetest",
			"internal/worker",
			"internal/recovery",
			"internal/ledger",
			"internal/schedule",
		},
		libs: []string{goRedis, miniredis, luaEngine},
	},
	{
		dir: "internal/chaos", testOnly: true,
		rooms:   []string{job, handler, "lua", "internal/queue", "internal/queue/queuetest", testkit},
		libs:    []string{goRedis, mysql, sqlite},
		inTests: []string{"internal/archive/archivetest"},
	},
	{
		dir: "internal/contract", rooms: []string{"docs"}, libs: []string{jsonSchema, yaml},
		inTests: []string{job, handler, "internal/handlers", "web", openapi}, testOnly: true,
	},
	{dir: "internal/conformance", testOnly: true, libs: []string{json}},
	{
		dir: "internal/attack", testOnly: true, rooms: []string{job, testkit, "client"}, libs: []string{goRedis, mysql},
		inTests: []string{smtp, sasl},
	},
	{dir: "internal/fuzz", testOnly: true},
	{dir: "internal/testreport"},
	{dir: "internal/architecture"},
	{dir: "internal/architecture/statements", libs: []string{luaEngine}, testOnly: true},
	{dir: "internal/packaging", inTests: []string{"internal/config", "internal/release", compose}},
	{dir: "internal/release", testOnly: true},
	{
		dir: "bench", testOnly: true,
		// A module of its own, so that the compared engines are no dependency of tierq.
		rooms: []string{
			job, handler, "internal/queue", database, "internal/config", "internal/app", "lua", "client", "worker",
			testkit,
		},
		libs: []string{
			goRedis, mysql, miniredis, "github.com/hibiken/asynq", "github.com/riverqueue/river", "github.com/jackc/pgx",
		},
	},
	{
		dir: "compat", testOnly: true,
		// A module of its own, so that the clients of Faktory are no dependency of tierq.
		rooms: []string{testkit}, libs: []string{"github.com/contribsys/faktory", "github.com/contribsys/faktory_worker_go"},
	},
}

// testLibs are the libraries that any test may import, in addition to tierq's own test-only rooms.
var testLibs = []string{"go.uber.org/goleak", "pgregory.net/rapid", "github.com/google/go-cmp", miniredis,
	"internal/fuzz"}
