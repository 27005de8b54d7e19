import { secretName, secretText } from "../../api/masked-text.ts";
import { isRecord } from "../../lib/record.ts";
import { secretStays, type LeftList, type SlotFields } from "./imported.ts";
import { expanded, type Macros } from "./llama-swap-macros.ts";
import { textsOf, type SourceDocument } from "./source-text.ts";
import { literal } from "./words.ts";

/** The settings of one model of llama-swap. */
export type Fields = Readonly<Record<string, unknown>>;

/** Seconds as llama-swap has them; undefined: the file sets none. */
function secondsOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : undefined;
}

/** A model's own time, or that of the whole file; llama-swap takes no less than 15 s. */
export function startupOf(fields: Fields, { value }: SourceDocument): { readonly startupSeconds?: number } {
  const seconds = secondsOf(fields["healthCheckTimeout"]) ?? secondsOf(value["healthCheckTimeout"]);
  return seconds === undefined ? {} : { startupSeconds: Math.max(15, seconds) };
}

/** A model's own time to end, or that of the whole file. */
export function stopOf(fields: Fields, { value }: SourceDocument): Pick<SlotFields, "stopSeconds"> {
  const seconds = secondsOf(fields["unloadTimeout"]) || secondsOf(value["unloadTimeout"]);
  return seconds === undefined ? {} : { stopSeconds: seconds };
}

interface LoadContext {
  readonly isPreloaded: boolean;
  readonly group: string | undefined;
  readonly note: (why: string) => void;
  readonly left: LeftList;
}

/** When the slot is loaded and unloaded: `ttl` in seconds, 0 for never, and the models that are loaded at the start. */
export function loadOf(
  fields: Fields,
  source: SourceDocument,
  { isPreloaded, group, note, left }: LoadContext,
  name: string,
): Pick<SlotFields, "load" | "idleSeconds"> {
  const idleSeconds = secondsOf(fields["ttl"]) ?? secondsOf(source.value["globalTTL"]) ?? 0;
  if (isPreloaded && group === undefined) {
    if (idleSeconds > 0)
      note("not carried: llama-swap loads the model at its start, and Berth keeps such a slot loaded");
    return { load: "always" };
  }
  if (isPreloaded)
    left.add(
      source.at("hooks", "on_startup", "preload"),
      "hooks.on_startup.preload",
      `${name} shares a group, in which always loaded slots never leave: run \`berth slot load\` after the start`,
    );
  return { load: "onDemand", idleSeconds };
}

/** The limits on an answer's time that Berth has, too. */
export function timeoutsOf(
  value: unknown,
  note: (key: string, why: string) => void,
): Pick<SlotFields, "timeoutSeconds"> {
  const timeouts = isRecord(value) ? value : {};
  const firstByte = secondsOf(timeouts["responseHeader"]);
  if (Object.keys(timeouts).some((key) => key !== "responseHeader"))
    note("timeouts", "only responseHeader has a like: timeoutSeconds.firstByte");
  return firstByte === undefined ? {} : { timeoutSeconds: { firstByte } };
}

/** The variables of the engine, beside those that are known; without secrets. */
export function envOf(
  value: unknown,
  macros: Macros,
  env: NodeJS.ProcessEnv,
  known: SlotFields["env"],
  note: (key: string, why: string) => void,
): Pick<SlotFields, "env"> {
  const found: Record<string, NonNullable<SlotFields["env"]>[string]> = { ...known };
  for (const pair of textsOf(value)) {
    const [, name = "", text = ""] = /^([A-Za-z_]\w*)=([^]*)$/.exec(pair) ?? [];
    if (name === "") note("env", "a variable is written as NAME=value");
    else if (secretName.test(name) || secretText.test(text)) note("env", `${name}: ${secretStays}`);
    else {
      const value = expanded(text, macros, env);
      if (value === undefined) note("env", `${name}: it holds a macro that has no value here`);
      else found[name] = literal(value).replaceAll("$$(PORT)", "$(PORT)");
    }
  }
  return Object.keys(found).length === 0 ? {} : { env: found };
}

/** llama-swap's values replace the client's: a trailing `!` says so here. */
export function requestOf(
  value: unknown,
  note: (key: string, why: string) => void,
  expand: (text: string) => string | undefined,
): NonNullable<SlotFields["request"]> {
  const filters = isRecord(value) ? value : {};
  const stripped = filters["stripParams"] ?? filters["strip_params"];
  const strip =
    typeof stripped === "string"
      ? stripped.split(",").flatMap((each) => (each.trim() === "model" ? [] : each.trim() || []))
      : [];
  const set = Object.entries(isRecord(filters["setParams"]) ? filters["setParams"] : {}).filter(
    ([key]) => key !== "model",
  );
  for (const key of Object.keys(filters))
    if (!["stripParams", "strip_params", "setParams"].includes(key))
      note("filters", `${key}: a slot sets the same fields for all its names; give each variant a slot of its own`);
  const values = set.map(([key, field]) => {
    if (typeof field !== "string") return [`${key}!`, field] as const;
    const text = expand(field) ?? field;
    const isNumber = text !== field && /^-?\d+(?:\.\d+)?$/.test(text);
    return [`${key}!`, isNumber ? Number(text) : text] as const;
  });
  return {
    ...(strip.length === 0 ? {} : { strip }),
    ...(values.length === 0 ? {} : { set: Object.fromEntries(values) }),
  };
}
