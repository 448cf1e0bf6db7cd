// Package tracing sends the spans of a program by OTLP over HTTP, as the environment variables of OpenTelemetry say.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	hubtracing "github.com/flotilla-dev/flotilla/hub/tracing"
)

// lastSpans is how long a program that ends tries to send what is left: its pod has 30 s.
const lastSpans = 5 * time.Second

// Start returns a provider, and a function that sends what is left and ends it. The provider is nil where no endpoint
// is named: then nothing is traced. A receiver that is away delays nothing; its spans are dropped, and the log tells.
func Start(
	ctx context.Context,
	program, version string,
	log logr.Logger,
) (_ trace.TracerProvider, stop func(), err error) {
	if !wanted(os.Getenv) {
		return nil, func() {}, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("set up traces: %w", err)
	}
	from, err := resource.New(
		ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", program), attribute.String("service.version", version)),
		resource.WithFromEnv(),
	)
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, nil, fmt.Errorf("set up traces: %w", err)
	}
	otel.SetErrorHandler(
		otel.ErrorHandlerFunc(func(err error) { log.Info("Traces could not be sent", "err", err.Error()) }),
	)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(from),
		sdktrace.WithIDGenerator(hubtracing.IDs{}),
	)
	return provider, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Info("The last traces could not be sent", "err", err.Error())
		}
	}, nil
}

// wanted tells whether the environment names a receiver, and does not turn traces off.
func wanted(env func(string) string) bool {
	named := env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	return named && env("OTEL_SDK_DISABLED") != "true" && env("OTEL_TRACES_EXPORTER") != "none"
}
