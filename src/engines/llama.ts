import type { ModelRecord } from "../api/model.ts";
import type { ProcessRole, SlotCapability } from "../api/names.ts";
import type { Workload } from "../api/workload.ts";
import { contextSizeOf, derivedContext } from "./context-size.ts";
import { everyPortTaken } from "./engine.ts";
import type { Engine, EngineInput, EngineRefusal, ProbeTarget, SlotInputs } from "./engine.ts";
import { declaredProtocols } from "./protocols.ts";
import { modeFor, modes, type Mode } from "./llama-mode.ts";
import { isServer, programOf, serverRemedy } from "./llama-program.ts";
import { computeIn } from "./llama-report.ts";
import { contextPlaceOf, derivedKeeping, savePathFlag } from "./kept-context.ts";
import { openSettings } from "./open-settings.ts";
import { derivedPromptCache, serverSettings } from "./llama-settings.ts";
import { listenOf, modelRefusal, probePath, reachedOn, workloadOf } from "./workload.ts";

/** Always set, since upstream's default differs between versions. */
const insidePort = 8080;

/**
 * By default llama-server lets every web page that a person opens read its answers (its README, `--cors-origins`). No
 * page has this origin. A variable, since versions without the setting ignore it and would refuse a flag.
 */
const environment = { LLAMA_ARG_CORS_ORIGINS: "http://berth.invalid" };

/** Never as a flag: every user of the machine can read a command line. */
const bearer = "LLAMA_API_KEY";

/**
 * llama.cpp: as a container, or a `llama-server` of this machine, else the embedded engine, which accepts the same
 * flags (https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md). Embeddings and reranking are launch
 * modes of their own, so a slot with both runs two processes.
 */
export const llama = {
  kind: "llama",

  capabilities(input) {
    const { spec } = input;
    if (spec.capabilities !== undefined) return spec.capabilities;
    const found: SlotCapability[] = [];
    for (const mode of modes(input).values()) {
      if (mode === "embedding") found.push("embeddings");
      else if (mode === "reranking") found.push("rerank");
      else {
        found.push("chat", "completions");
        // Only llama.cpp's own server supports a projector.
        if (isServer(input) && projectorOf(input) !== undefined) found.push("vision");
      }
    }
    return found;
  },

  protocols(input) {
    if (input.spec.command !== undefined) return declaredProtocols(input);
    if (!isServer(input) || modes(input).get("main") !== "chat") return [];
    // Responses and Messages are translated into a chat (docs/adr/0007).
    return ["input_tokens"];
  },

  roles: (input) => [...modes(input).keys()],

  workloads(input) {
    const workloads: Workload[] = [];
    for (const [role, mode] of modes(input)) {
      const made = workload(input, role, mode);
      if ("reason" in made) return made;
      workloads.push(made);
    }
    return workloads;
  },

  probe(input, role): ProbeTarget {
    const model = refOf(input, role) ?? input.slot;
    const path = probePath(input, { ref: model, model: modelOf(input, role) }, "/health");
    const warmUps = {
      chat: {
        path: "/v1/chat/completions",
        body: { model, messages: [{ role: "user", content: "hi" }], max_tokens: 1 },
      },
      embedding: { path: "/v1/embeddings", body: { model, input: ["warm"] } },
      reranking: { path: "/v1/rerank", body: { model, query: "warm", documents: ["up"] } },
    } satisfies Record<Mode, ProbeTarget["warmUp"]>;
    const warmUp = warmUps[modes(input).get(role) ?? "chat"];
    return {
      path,
      warmUp,
      protocols: role === "main" && input.spec.command === undefined ? llama.protocols(input) : [],
    };
  },

  derived: (input) =>
    input.spec.command === undefined
      ? { ...derivedContext(input), ...derivedPromptCache(input), ...derivedKeeping(input), ...openSettings(input) }
      : {},

  computeIn: (input, said) => (input.spec.command === undefined ? computeIn(said) : undefined),

  servedModel: (input) => input.ref ?? input.slot,
} as const satisfies Engine;

function refOf(input: SlotInputs, role: ProcessRole): string | undefined {
  return role === "rerank" ? (input.spec.model.rerank ?? input.ref) : input.ref;
}

function modelOf(input: SlotInputs, role: ProcessRole): ModelRecord | undefined {
  return role === "rerank" && input.spec.model.rerank !== undefined ? input.rerankModel : input.model;
}

function projectorOf({ spec, model }: SlotInputs): string | undefined {
  return spec.model.projector ?? model?.projectorPath;
}

function workload(input: EngineInput, role: ProcessRole, mode: Mode): Workload | EngineRefusal {
  const { spec, slot } = input;
  const ref = refOf(input, role);
  const model = modelOf(input, role);
  const projector = mode === "chat" ? projectorOf(input) : undefined;
  const container = { port: insidePort, ...(projector === undefined ? {} : { files: [projector] }) };
  const port = reachedOn(input, role, container);
  if (port === undefined) return everyPortTaken;
  if (spec.command !== undefined) {
    const own = { role, command: [], identity: undefined, ref: ref ?? slot, model, bearer, port, container };
    return workloadOf(input, own);
  }
  if (ref === undefined) return { reason: "ModelNotFound", message: "the slot names no model" };
  const refusal =
    modelRefusal("llama", ref, model, input.knownRefs) ?? formatRefusal(model) ?? capabilityRefusal(input);
  if (refusal !== undefined) return refusal;
  const program = programOf(input);
  if ("reason" in program) return program;
  const listen = listenOf(input, port, container);
  const context = contextFlags({ ...input, model });
  // The vector of a text is made from all its tokens, or from the last one alone.
  const isWhole = mode !== "chat" && model?.pooling !== "last";
  const wholeTokens = isWhole ? contextSizeOf({ ...input, model })?.tokens : undefined;
  const settings = serverSettings(input, { mode, projector, wholeTokens });
  const contextPlace = contextPlaceOf(input, { role, ordinal: input.ordinal ?? 0 });
  const flags = [
    "--model",
    model?.path ?? "",
    "--alias",
    ref,
    ...(spec.model.contextSize === undefined ? [] : context),
    ...(spec.model.gpuLayers === undefined ? [] : ["--n-gpu-layers", String(spec.model.gpuLayers)]),
    "--parallel",
    String(spec.model.parallel),
    ...modeFlags(mode, model),
  ];
  const projection = projector === undefined ? [] : ["--mmproj", projector];
  const command = [
    ...program.command,
    "--host",
    listen.host,
    "--port",
    String(listen.port),
    "--threads",
    String(input.threads),
    "--metrics",
    "--no-webui",
    ...(spec.model.contextSize === undefined ? context : []),
    ...settings.flags,
    ...(contextPlace === undefined ? [] : [savePathFlag, contextPlace.target]),
    ...flags,
    ...(isServer(input) ? projection : []),
  ];
  // Which llama.cpp runs is derived, and so are its settings beyond the spec: neither restarts an engine.
  const identity = [...flags, ...projection];
  const env = { ...environment, ...settings.env };
  const place = contextPlace === undefined ? {} : { contextPlace };
  return workloadOf(input, { role, command, identity, ref, model, env, bearer, port, container, ...place });
}

/** llama-server divides the value of this flag among concurrent requests; the manifest gives the size for each. */
function contextFlags(input: SlotInputs): readonly string[] {
  const tokens = contextSizeOf(input)?.tokens;
  const isDefault = input.spec.model.contextSize === undefined && !isServer(input);
  return tokens === undefined || isDefault ? [] : ["--ctx-size", String(tokens * input.spec.model.parallel)];
}

function modeFlags(mode: Mode, model: ModelRecord | undefined): readonly string[] {
  const flags = {
    chat: ["--jinja"],
    embedding: ["--embedding", "--pooling", poolingOf(model)],
    reranking: ["--reranking"],
  } satisfies Record<Mode, readonly string[]>;
  return flags[mode];
}

function poolingOf(model: ModelRecord | undefined): string {
  const pooling = model?.pooling;
  // Without its own pooling a model's token vectors are averaged: clients expect one vector per input.
  return pooling === undefined || pooling === "none" || pooling === "rank" ? "mean" : pooling;
}

/** A declared model may be any file or directory; llama.cpp reads GGUF. */
function formatRefusal(model: ModelRecord | undefined): EngineRefusal | undefined {
  if (model === undefined || model.architecture !== undefined) return undefined;
  return { reason: "NotAModel", message: `${model.path ?? model.ref} is no GGUF file that llama.cpp can load` };
}

function capabilityRefusal(input: EngineInput): EngineRefusal | undefined {
  const launched = [...modes(input).values()];
  for (const capability of input.spec.capabilities ?? []) {
    const mode = modeFor(capability);
    if (mode === undefined) {
      return { reason: "NoCapability", message: `the llama engine has no ${capability}` };
    }
    if (!launched.includes(mode)) {
      return {
        reason: "NoCapability",
        message: `one llama slot answers either chat or ${capability}: give ${capability} a slot of its own`,
      };
    }
    if (capability === "vision" && !isServer(input)) {
      return {
        reason: "NoCapability",
        message: `the embedded engine has no ${capability}: ${serverRemedy(input)}, or leave it out`,
      };
    }
  }
  return undefined;
}
