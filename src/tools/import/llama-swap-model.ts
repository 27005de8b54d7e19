import { modelRefSchema, type SlotCapability } from "../../api/names.ts";
import { containerSlot, type ContainerSlot } from "./container-line.ts";
import { dockerRun } from "./docker-run.ts";
import { hasWindowsPath, withoutSecrets, type ImportedSlot, type Omissions } from "./imported.ts";
import { isLlamaServer, llamaLine, weightsOf } from "./llama-line.ts";
import { modelMapping, timesOf, type Fields } from "./llama-swap-fields.ts";
import { expanded, expandMacros, MacroProblem, macrosOf, type Macros } from "./llama-swap-macros.ts";
import { carried, joined, settingsOf } from "./mapping.ts";
import { mapAt, textsOf, type SourceDocument } from "./source-text.ts";
import { withoutComments, withPort, wordsOf } from "./words.ts";

export interface SwapContext {
  readonly source: SourceDocument;
  readonly omissions: Omissions;
  readonly env: NodeJS.ProcessEnv;
  readonly macros: Macros;
  /** The directory of the file: relative paths start there. */
  readonly directory: string;
  readonly group: string | undefined;
  readonly isPreloaded: boolean;
  readonly priority: number | undefined;
}

/** The slot of one model; undefined where none can be made, with the reason in `omissions`. */
export function swapModel(name: string, fields: Fields, context: SwapContext): ImportedSlot | undefined {
  const { source, omissions, env, group, isPreloaded, priority } = context;
  const path = `models.${name}`;
  const note = (key: string, why: string): void => omissions.add(source.at("models", name, key), `${path}.${key}`, why);
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
    const why = words.length === 0 ? "it has no command" : "its command names paths of Windows";
    note("cmd", `the model is not carried: ${why}`);
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
  const isAlways = isPreloaded && group === undefined;
  if (isPreloaded && !isAlways)
    omissions.add(
      source.at("hooks", "on_startup", "preload"),
      "hooks.on_startup.preload",
      `${name} shares a group, in which always loaded slots never leave: run \`berth slot load\` after the start`,
    );
  const given = { ...fields, ...Object.fromEntries(texts), ...timesOf(fields, source.value) };
  const settings = settingsOf(given, source, "models", name).filter(({ value }) => value !== false);
  const otherwise = "Berth knows no such setting";
  return {
    name,
    place: source.at("models", name),
    aliases: [...textsOf(fields["aliases"]).map((alias) => expanded(alias, macros, env) ?? alias), ...made.aliases],
    weights: made.weights,
    spec: joined(
      made.spec,
      isAlways ? {} : { load: "onDemand", idleSeconds: 0 },
      { priority: group === undefined ? undefined : priority },
      carried(settings, modelMapping({ macros, env, isAlways }), { omissions, otherwise }),
    ),
    group,
  };
}

function engineOf(
  name: string,
  words: readonly string[],
  texts: ReadonlyMap<string, string>,
  fields: Fields,
  { source, omissions, directory }: SwapContext,
): ContainerSlot | undefined {
  const what = `models.${name}.cmd`;
  const place = source.at("models", name, "cmd");
  const context = { omissions, place, name: what, directory };
  const docker = dockerRun(words);
  if (docker !== undefined) {
    for (const option of docker.unknown)
      omissions.add(place, `${what} ${option}`, "Berth decides how containers run; see docs/runtimes.md");
    return containerSlot(docker.line, context);
  }
  const [program = "", ...rest] = words;
  if (isLlamaServer(program)) {
    const found = llamaLine(rest, context);
    const weights = weightsOf(found, context);
    if (weights !== undefined) {
      if (program !== "llama-server")
        omissions.addOnce(
          place,
          program,
          "all llama slots run the llama-server of PATH, or of SVC_LLAMA_SERVER: name it there",
        );
      return { spec: found.spec, aliases: found.aliases, weights };
    }
  }
  const fixed = /:(\d+)(?:\/.*)?$/.exec(texts.get("proxy") ?? "")?.[1];
  const command = [...withPort(withoutSecrets(words, context), fixed)];
  if (!command.some((word) => word.includes("$(PORT)")))
    omissions.add(place, what, "the engine must listen on $(PORT), and its command does not name it: write it there");
  const used = texts.get("useModelName");
  const served = used ?? name;
  const isRef = modelRefSchema.safeParse(served).success;
  // An engine of another name than its slot's is asked by its own.
  const isOther = used !== undefined || !/^[a-z0-9-]{1,32}$/.test(served);
  const capabilities = capabilitiesOf(program, fields["capabilities"]);
  return {
    aliases: [],
    spec: {
      engine: "custom",
      capabilities: capabilities && [...capabilities],
      model: { default: isRef && isOther ? served : undefined },
      command,
    },
  };
}

function isHere(host: string): boolean {
  return host === "localhost" || host === "[::1]" || host === "0.0.0.0" || host.startsWith("127.");
}

/** The work of a program other than llama-server, by what llama-swap tells its clients, or by the program's name. */
function capabilitiesOf(program: string, declared: unknown): readonly SlotCapability[] | undefined {
  const { in: inputs, out: outputs, reranker } = mapAt(declared);
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
