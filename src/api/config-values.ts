import { z } from "zod";

/** Values of settings, as a variable of the environment or berth.toml has them. */
export const bool = z.union([
  z.boolean(),
  z.enum(["0", "1", "true", "false"], "0 or 1").transform((text) => text === "1" || text === "true"),
]);
export const whole = (min: number, max: number) =>
  z.union([
    z.int().min(min).max(max),
    z
      .string()
      .regex(/^\d{1,10}$/, "a whole number")
      .transform(Number)
      .pipe(z.int().min(min).max(max)),
  ]);
/** 0.01: one of a hundred. */
export const part = z.union([
  z.number().min(0).max(1),
  z
    .string()
    .regex(/^(0(\.\d{1,9})?|1(\.0{1,9})?)$/, "a part from 0 to 1")
    .transform(Number),
]);
export const list = z.union([
  z.array(z.string()),
  z.string().transform((text) =>
    text
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== ""),
  ),
]);

const binaryUnits = { "": 1, Ki: 1024, Mi: 1024 ** 2, Gi: 1024 ** 3 } as const;

/** `64Mi`, `1Gi` or plain bytes. */
export const bytesSchema = z.union([
  z.int().min(0),
  z
    .string()
    .regex(/^\d{1,15}(Ki|Mi|Gi)?$/, "bytes, or a number with Ki, Mi or Gi")
    .transform((text) => {
      const [, digits = "0", unit = ""] = /^(\d+)(Ki|Mi|Gi)?$/.exec(text) ?? [];
      return Number(digits) * (unit === "Ki" || unit === "Mi" || unit === "Gi" ? binaryUnits[unit] : 1);
    }),
]);

/** `*` within an origin stands for one or more labels in front of a name, for any name, or for any port. */
const originText = /^(?:null|[a-z][a-z0-9+.-]*:\/\/(?:\*|(?:\*\.)?[^*/?#@\s]+?)(?::(?:\d{1,5}|\*))?\/?)$/i;
/** Origins of pages, or patterns of them. */
export const origins = list.refine(
  (texts) => texts.every((text) => text === "*" || originText.test(text)),
  "origins such as https://chat.example, patterns such as https://*.example and http://localhost:*, or *",
);

const portRange = z.strictObject({ first: z.int().min(1).max(65_535), last: z.int().min(1).max(65_535) });

/** A range of ports, `8081-8099` in the environment. */
export const portsSchema = z.union([
  portRange,
  z
    .string()
    .regex(/^\d{1,5}-\d{1,5}$/, "a range like 8081-8099")
    .transform((text) => {
      const [first = 0, last = 0] = text.split("-").map(Number);
      return { first, last };
    })
    .pipe(portRange),
]);

/** A volume of Pods. */
export const podVolumeSchema = z
  .string()
  .regex(/^(claim:[a-z0-9]([a-z0-9.-]*[a-z0-9])?|path:\/.*)$/, "claim:NAME, or path:/DIRECTORY of the node");

/** Berth's own paths by their first segment; a test compares them with the routes of a gateway. */
const ownPath =
  /^\/(?:api|assets|chat|health|livez|metrics|models|props|readyz|rerank|score|ui|upstream|v1|v2)(?=\/|$)/;

/** `/berth`, or `/apps/berth`; a slash at the end is left out. Below one of Berth's own paths it would hide that path. */
export const basePathSchema = z
  .string()
  .regex(/^(?:\/[\w.~-]+)+\/?$/, "a path such as /berth")
  .refine((path) => !/\/\.{1,2}(?:\/|$)/.test(path), "must have no segment . or .., which clients resolve")
  .refine((path) => !ownPath.test(path), {
    error: ({ input }) => `must not begin with ${ownPath.exec(String(input))?.[0] ?? ""}: Berth has that path itself`,
  })
  .transform((path) => path.replace(/\/$/, ""));

/** The address of a server, without credentials: no request would have them, and the log of its refusal would show them. */
export const plainUrlSchema = z
  .url({ protocol: /^https?$/ })
  .refine((url) => !URL.parse(url)?.username && !URL.parse(url)?.password, "must hold no user and no password");

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
