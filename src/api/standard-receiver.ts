/**
 * The receiver of traces by OpenTelemetry's own variables
 * (https://opentelemetry.io/docs/specs/otel/protocol/exporter/); Berth's own setting goes first.
 */
export function standardReceiver(
  environment: Readonly<Record<string, string | undefined>>,
): { readonly name: string; readonly url: string } | undefined {
  const isOff = environment["OTEL_SDK_DISABLED"]?.toLowerCase() === "true";
  if (isOff || environment["OTEL_TRACES_EXPORTER"] === "none") return undefined;
  const all = environment["OTEL_EXPORTER_OTLP_ENDPOINT"] ?? "";
  const traces = environment["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] ?? "";
  const base = traces.replace(/\/v1\/traces\/?$/, "");
  if (base !== traces) return { name: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url: base };
  return all === "" ? undefined : { name: "OTEL_EXPORTER_OTLP_ENDPOINT", url: all };
}
