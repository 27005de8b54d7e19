import { secretName } from "../../api/masked-text.ts";
import { definedFields } from "../../lib/record.ts";
import { holdsSecret, secretStays, type SlotFields } from "./imported.ts";
import { expanded, type Macros } from "./llama-swap-macros.ts";
import { isCount, readElsewhere, type Mapping } from "./mapping.ts";
import { mapAt, textsOf } from "./source-text.ts";
import { withPort } from "./words.ts";

/** The settings of one model of llama-swap. */
export type Fields = Readonly<Record<string, unknown>>;

interface FieldContext {
  readonly macros: Macros;
  readonly env: NodeJS.ProcessEnv;
  /** Whether Berth loads the slot at its start, and keeps it loaded. */
  readonly isAlways: boolean;
}

/** The rules for the settings of a model. */
export function modelMapping({ macros, env, isAlways }: FieldContext): Mapping {
  return {
    ...readElsewhere("cmd macros proxy useModelName aliases capabilities"),
    ttl: (value, note) => {
      const idleSeconds = secondsOf(value) ?? 0;
      // -1 stands for the value of the whole file.
      if (secondsOf(value) === undefined && value !== -1)
        note("it is no whole number of seconds: the slot stays loaded once it is");
      if (!isAlways) return { idleSeconds };
      if (idleSeconds === 0) return {};
      return "not carried: llama-swap loads the model at its start, and Berth keeps such a slot loaded";
    },
    unloadTimeout: (value) => ({ stopSeconds: secondsOf(value) }),
    // llama-swap takes no less.
    healthCheckTimeout: (value) => ({ probe: { startupSeconds: Math.max(15, secondsOf(value) ?? 0) } }),
    checkEndpoint: (value) => {
      if (value === "none") return "an engine is always probed; probe.path names the route";
      return typeof value === "string" && value.startsWith("/") && value !== "/health"
        ? { probe: { path: value } }
        : {};
    },
    concurrencyLimit: (value) => (isCount(value) ? { concurrency: { max: value } } : {}),
    timeouts: (value, note) => {
      const { responseHeader, ...others } = mapAt(value);
      if (Object.keys(others).length > 0) note("only responseHeader has a like: timeoutSeconds.firstByte");
      return { timeoutSeconds: { firstByte: secondsOf(responseHeader) } };
    },
    env: (value, note) => ({ env: variablesOf(textsOf(value), { macros, env, note }) }),
    filters: (value, note) => {
      const { stripParams, strip_params: older, setParams, ...others } = mapAt(value);
      for (const key of Object.keys(others))
        note(`${key}: a slot sets the same fields for all its names; give each variant a slot of its own`);
      const strip = textsOf(stripParams ?? older ?? []).flatMap((text) => text.split(",").map((each) => each.trim()));
      // llama-swap's values replace the client's: a trailing `!` says so here.
      const set = Object.entries(mapAt(setParams)).map(
        ([key, field]) => [`${key}!`, valueOf(field, macros, env)] as const,
      );
      return {
        request: {
          strip: strip.filter((each) => each !== "" && each !== "model"),
          set: Object.fromEntries(set.filter(([key]) => key !== "model!")),
        },
      };
    },
    name: "slots have no name for display",
    description: "slots have no description",
    metadata: "slots have no metadata in /v1/models",
    unlisted: "/v1/models lists every slot",
    cmdStop: "Berth ends an engine by TERM, then KILL after stopSeconds; containers by the daemon",
    sendLoadingState: "a stream that waits has comments in its place (docs/requests.md)",
    compat: "Berth has no such switch",
  };
}

/** The times of a model in seconds: its own, or those of the whole file. */
export function timesOf(fields: Fields, file: Fields): Fields {
  return definedFields({
    ttl: secondsOf(fields["ttl"]) ?? secondsOf(file["globalTTL"]),
    healthCheckTimeout: secondsOf(fields["healthCheckTimeout"]) ?? secondsOf(file["healthCheckTimeout"]),
    unloadTimeout: secondsOf(fields["unloadTimeout"]) || secondsOf(file["unloadTimeout"]),
  });
}

/** Seconds as llama-swap has them; undefined: the file sets none. */
function secondsOf(value: unknown): number | undefined {
  return value === 0 || isCount(value) ? value : undefined;
}

/** The variables of the engine without secrets. */
function variablesOf(
  pairs: readonly string[],
  { macros, env, note }: Omit<FieldContext, "isAlways"> & { readonly note: (why: string) => void },
): NonNullable<SlotFields["env"]> {
  const found: Record<string, string> = {};
  for (const pair of pairs) {
    const [, name = "", text = ""] = /^([A-Za-z_]\w*)=([^]*)$/.exec(pair) ?? [];
    const value = expanded(text, macros, env);
    if (name === "") note("a variable is written as NAME=value");
    else if (secretName.test(name) || holdsSecret(text)) note(`${name}: ${secretStays}`);
    else if (value === undefined) note(`${name}: it holds a macro that has no value here`);
    else found[name] = withPort([value]).join("");
  }
  return found;
}

/** A value of a request; a macro that holds a number is one. */
function valueOf(field: unknown, macros: Macros, env: NodeJS.ProcessEnv): unknown {
  if (typeof field !== "string") return field;
  const text = expanded(field, macros, env) ?? field;
  return text !== field && /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text;
}
