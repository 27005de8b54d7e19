import { resolve } from "node:path";
import { modelRefSchema, type SlotCapability } from "../../api/names.ts";
import { isRecord } from "../../lib/record.ts";
import { containerSlot, type ContainerSlot } from "./container-line.ts";
import { dockerRun } from "./docker-run.ts";
import { hasWindowsPath, withoutSecrets, type ImportedSlot, type LeftList, type SlotFields } from "./imported.ts";
import { isLlamaServer, llamaLine } from "./llama-line.ts";
import { envOf, loadOf, requestOf, startupOf, stopOf, timeoutsOf, type Fields } from "./llama-swap-fields.ts";
import { expanded, expandMacros, MacroProblem, macrosOf, type Macros } from "./llama-swap-macros.ts";
import { textsOf, type SourceDocument } from "./source-text.ts";
import { literal, withoutComments, wordsOf } from "./words.ts";

export interface SwapContext {
  readonly source: SourceDocument;
  readonly left: LeftList;
  readonly env: NodeJS.ProcessEnv;
  readonly macros: Macros;
  /** The directory of the file: relative paths start there. */
  readonly directory: string;
  readonly group: string | undefined;
  readonly isPreloaded: boolean;
  readonly priority: number | undefined;
}

/** Settings of a model that a slot has not. */
const others: Readonly<Record<string, string>> = {
  name: "slots have no name for display",
  description: "slots have no description",
  metadata: "slots have no metadata in /v1/models",
  unlisted: "/v1/models lists every slot",
  cmdStop: "Berth ends an engine by TERM, then KILL after stopSeconds; containers by the daemon",
  sendLoadingState: "a stream that waits has comments in its place (docs/requests.md)",
  compat: "Berth has no such switch",
};
const read = new Set(
  "cmd macros env proxy checkEndpoint ttl unloadTimeout useModelName filters aliases concurrencyLimit timeouts capabilities healthCheckTimeout".split(
    " ",
  ),
);

/** The slot of one model; undefined where none can be made, with the reason in `left`. */
export function swapModel(name: string, fields: Fields, context: SwapContext): ImportedSlot | undefined {
  const { source, left, env, group, isPreloaded, priority } = context;
  const path = `models.${name}`;
  const note = (key: string, why: string): void => left.add(source.at("models", name, key), `${path}.${key}`, why);
  const macros: Macros = new Map([...context.macros, ...macrosOf(fields["macros"]), ["MODEL_ID", name]]);
  const texts = new Map<string, string>();
  try {
    for (const key of ["cmd", "proxy", "checkEndpoint", "useModelName"])
      // A macro in a comment is no part of the command.
      if (typeof fields[key] === "string") texts.set(key, expandMacros(withoutComments(fields[key]), macros, env));
  } catch (error) {
    if (!(error instanceof MacroProblem)) throw error;
    note("cmd", `the model is not carried: ${error.message}`);
    return undefined;
  }
  const command = texts.get("cmd") ?? "";
  const words = wordsOf(command);
  if (words.length === 0 || hasWindowsPath(command)) {
    note(
      "cmd",
      words.length === 0
        ? "the model is not carried: it has no command"
        : "the model is not carried: its command names paths of Windows",
    );
    return undefined;
  }
  const host = URL.parse((texts.get("proxy") ?? "").replace("$(PORT)", "1"))?.hostname;
  if (host !== undefined && !isHere(host)) {
    note(
      "proxy",
      "the model is not carried: another machine serves it; models of other servers are Upstreams (docs/upstreams.md)",
    );
    return undefined;
  }
  const made = engineOf(name, words, texts, fields, context);
  if (made === undefined) return undefined;
  for (const key of Object.keys(fields))
    if (!read.has(key) && fields[key] !== false) note(key, others[key] ?? "Berth knows no such setting");
  const checked = texts.get("checkEndpoint");
  if (checked === "none") note("checkEndpoint", "an engine is always probed; probe.path names the route");
  const probe = {
    ...made.spec.probe,
    ...(checked === undefined || !checked.startsWith("/") || checked === "/health" ? {} : { path: checked }),
    ...startupOf(fields, source),
  };
  const max = fields["concurrencyLimit"];
  const request = requestOf(fields["filters"], note, (text) => expanded(text, macros, env));
  const spec: SlotFields = {
    ...made.spec,
    ...loadOf(fields, source, { isPreloaded, group, note: (why) => note("ttl", why), left }, name),
    ...(priority === undefined || group === undefined ? {} : { priority }),
    ...(Object.keys(probe).length === 0 ? {} : { probe }),
    ...stopOf(fields, source),
    ...(typeof max === "number" && max > 0 ? { concurrency: { max } } : {}),
    ...timeoutsOf(fields["timeouts"], note),
    ...envOf(fields["env"], macros, env, made.spec.env, note),
    ...(Object.keys(request).length === 0 ? {} : { request }),
  };
  return {
    name,
    place: source.at("models", name),
    aliases: [...textsOf(fields["aliases"]).map((alias) => expanded(alias, macros, env) ?? alias), ...made.aliases],
    weights: made.weights,
    spec,
    group,
  };
}

function engineOf(
  name: string,
  words: readonly string[],
  texts: ReadonlyMap<string, string>,
  fields: Fields,
  { source, left, directory }: SwapContext,
): ContainerSlot | undefined {
  const place = source.at("models", name, "cmd");
  const what = `models.${name}.cmd`;
  const docker = dockerRun(words);
  if (docker !== undefined) {
    for (const option of docker.unknown)
      left.add(place, `${what} ${option}`, "Berth decides how containers run; see docs/runtimes.md");
    return containerSlot(docker.line, { left, place, name: what, directory });
  }
  const [program = "", ...rest] = words;
  if (isLlamaServer(program)) {
    const found = llamaLine(rest, { left, place, name: what });
    if (found.model !== undefined && !found.fetches) {
      if (program !== "llama-server")
        left.addOnce(
          place,
          program,
          "all llama slots run the llama-server of PATH, or of SVC_LLAMA_SERVER: name it there",
        );
      const at = (path: string): string => resolve(directory, path);
      if (at(found.model) !== found.model)
        left.add(place, `${what} ${found.model}`, `a relative path: taken as ${at(found.model)}`);
      const projector = found.projector === undefined ? undefined : at(found.projector);
      return { spec: found.spec, aliases: found.aliases, weights: { paths: [at(found.model)], projector } };
    }
    left.add(
      place,
      what,
      "llama-server fetches this model itself, unseen by Berth; `berth model pull` and model.default would let Berth judge its memory",
    );
  }
  const fixed = /:(\d+)(?:\/.*)?$/.exec(texts.get("proxy") ?? "")?.[1];
  const command = withoutSecrets(words, left, place, what).map((word) => {
    const text = word.replaceAll("$(PORT)", "\0");
    const plain = literal(text).replaceAll("\0", "$(PORT)");
    return fixed === undefined
      ? plain
      : plain.replaceAll(new RegExp(String.raw`(?<!\d)${fixed}(?!\d)`, "g"), "$(PORT)");
  });
  if (!command.some((word) => word.includes("$(PORT)")))
    left.add(place, what, "the engine must listen on $(PORT), and its command does not name it: write it there");
  const used = texts.get("useModelName");
  const served = used ?? name;
  const capabilities = capabilitiesOf(program, fields["capabilities"]);
  return {
    aliases: [],
    spec: {
      engine: "custom",
      ...(capabilities === undefined ? {} : { capabilities: [...capabilities] }),
      // An engine of another name than its slot's is asked by its own.
      ...(modelRefSchema.safeParse(served).success && (used !== undefined || !/^[a-z0-9-]{1,32}$/.test(served))
        ? { model: { default: served } }
        : {}),
      command,
    },
  };
}

function isHere(host: string): boolean {
  return host === "localhost" || host === "[::1]" || host === "0.0.0.0" || host.startsWith("127.");
}

/** The work of a program other than llama-server, by what llama-swap tells its clients, or by the program's name. */
function capabilitiesOf(program: string, declared: unknown): readonly SlotCapability[] | undefined {
  const { in: inputs, out: outputs, reranker } = isRecord(declared) ? declared : {};
  if (reranker === true) return ["rerank"];
  const [made] = textsOf(outputs ?? []);
  if (made === "image") return ["image"];
  if (made === "audio") return ["speech"];
  if (textsOf(inputs ?? []).join() === "audio") return ["transcription"];
  const base = program.split("/").at(-1) ?? "";
  if (base.includes("whisper")) return ["transcription"];
  if (/^sd-server|stable-diffusion/.test(base)) return ["image"];
  if (/kokoro|tts/.test(base)) return ["speech"];
  return undefined;
}
