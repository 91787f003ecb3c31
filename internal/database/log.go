package database

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"gorm.io/gorm/logger"
)

// gormLog logs GORM's own warnings. It never logs statements, because they carry users' payloads. Errors are
// returned, and their handler logs them.
type gormLog struct{ log *slog.Logger }

func (l gormLog) LogMode(logger.LogLevel) logger.Interface { return l }
func (l gormLog) Info(context.Context, string, ...any)     {}
func (l gormLog) Warn(_ context.Context, m string, a ...any) {
	l.log.Warn("gorm: " + fmt.Sprintf(m, a...))
}
func (l gormLog) Error(_ context.Context, m string, a ...any) {
	l.log.Warn("gorm: " + fmt.Sprintf(m, a...))
}
func (l gormLog) Trace(context.Context, time.Time, func() (string, int64), error) {}
