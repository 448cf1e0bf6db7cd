// Package logs is how our programs write their logs, by their flags --log-level and --log-format.
package logs

import (
	"fmt"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a logger to standard error. level is debug, info or error, format is text or json; the error names the
// flag whose value is another one.
func New(level, format string) (logr.Logger, error) {
	c := zap.NewProductionConfig()
	if err := c.Level.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level %q is none of debug, info, error", level)
	}
	c.Sampling = nil // a line that is missing is worse than one too many
	c.DisableStacktrace = true
	c.DisableCaller = true
	c.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	c.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
	switch format {
	case "json":
	case "text":
		c.Encoding = "console"
	default:
		return logr.Logger{}, fmt.Errorf("--log-format %q is neither text nor json", format)
	}
	built, err := c.Build()
	if err != nil {
		return logr.Logger{}, fmt.Errorf("set up logging: %w", err)
	}
	return zapr.NewLogger(built), nil
}
