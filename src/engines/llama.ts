import type { ModelRecord } from "../api/model.ts";
import type { ProcessRole, SlotCapability } from "../api/names.ts";
import type { Workload } from "../api/workload.ts";
import type { Engine, EngineInput, EngineRefusal, ProbeTarget } from "./engine.ts";
import { modelRefusal, workloadOf } from "./workload.ts";

type Known = Omit<EngineInput, "ports" | "threads">;
type Mode = "chat" | "embedding" | "reranking";

/**
 * llama.cpp: a `llama-server` where there is one, else the embedded engine, which takes the same flags
 * (https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md). Embeddings and reranking are launch
 * modes of their own, so a slot that answers both runs two processes.
 */
export const llama = {
  kind: "llama",

  capabilities(input) {
    const { spec } = input;
    if (spec.capabilities !== undefined) return spec.capabilities;
    const found: SlotCapability[] = [];
    for (const role of roles(input)) {
      const mode = modeOf(input, role);
      if (mode === "embedding") found.push("embeddings");
      else if (mode === "reranking") found.push("rerank");
      else {
        found.push("chat", "completions");
        // Only llama.cpp's own server has these two routes.
        if (input.host.llamaServer !== undefined) found.push("responses", "messages");
        if (hasProjector(input)) found.push("vision");
      }
    }
    return found;
  },

  roles,

  workloads(input) {
    const workloads: Workload[] = [];
    for (const role of roles(input)) {
      const made = workload(input, role);
      if ("reason" in made) return made;
      workloads.push(made);
    }
    return workloads;
  },

  probe(input, role): ProbeTarget {
    const path = input.spec.probe.path ?? "/health";
    const model = refOf(input, role) ?? input.slot;
    const mode = modeOf(input, role);
    if (mode === "embedding") return { path, warmUp: { path: "/v1/embeddings", body: { model, input: ["warm"] } } };
    if (mode === "reranking") {
      return { path, warmUp: { path: "/v1/rerank", body: { model, query: "warm", documents: ["up"] } } };
    }
    const body = { model, messages: [{ role: "user", content: "hi" }], max_tokens: 1 };
    return { path, warmUp: { path: "/v1/chat/completions", body } };
  },

  servedModel: (input) => input.ref ?? input.slot,
} as const satisfies Engine;

function declares(model: ModelRecord | undefined, capability: "embed" | "rerank" | "chat"): boolean {
  return model?.capabilities.includes(capability) === true;
}

function modeOf({ slot, spec, model }: Known, role: ProcessRole): Mode {
  if (role === "rerank") return "reranking";
  const wanted = spec.capabilities;
  if (wanted !== undefined) {
    if (wanted.includes("chat") || wanted.includes("completions")) return "chat";
    if (wanted.includes("embeddings")) return "embedding";
    if (wanted.includes("rerank")) return "reranking";
    return "chat";
  }
  if (slot === "embed") return "embedding";
  if (declares(model, "chat")) return "chat";
  if (declares(model, "embed")) return "embedding";
  return declares(model, "rerank") ? "reranking" : "chat";
}

function roles(input: Known): readonly ProcessRole[] {
  if (modeOf(input, "main") !== "embedding") return ["main"];
  const reranks = input.spec.model.rerank !== undefined || declares(input.model, "rerank");
  return reranks ? ["main", "rerank"] : ["main"];
}

function refOf(input: Known, role: ProcessRole): string | undefined {
  return role === "rerank" ? (input.spec.model.rerank ?? input.ref) : input.ref;
}

function modelOf(input: Known, role: ProcessRole): ModelRecord | undefined {
  return role === "rerank" && input.spec.model.rerank !== undefined ? input.rerankModel : input.model;
}

function hasProjector({ spec, model }: Known): boolean {
  return spec.model.projector !== undefined || model?.projectorPath !== undefined;
}

function workload(input: EngineInput, role: ProcessRole): Workload | EngineRefusal {
  const { spec, host, slot } = input;
  const ref = refOf(input, role);
  const port = input.ports[role];
  if (port === undefined) return { reason: "NoFreePort", message: "every engine port is taken" };
  const model = modelOf(input, role);
  if (spec.command !== undefined) {
    return workloadOf(input, { role, command: [], identity: undefined, ref: ref ?? slot, model, port });
  }
  if (ref === undefined) return { reason: "ModelNotFound", message: "the slot names no model" };
  const refusal = modelRefusal(ref, model);
  if (refusal !== undefined) return refusal;
  const program = programOf(input);
  if ("reason" in program) return program;
  const mode = modeOf(input, role);
  const flags = [
    "--model",
    model?.path ?? "",
    "--alias",
    ref,
    ...(spec.model.contextSize === undefined ? [] : ["--ctx-size", String(spec.model.contextSize)]),
    ...(spec.model.gpuLayers === undefined ? [] : ["--n-gpu-layers", String(spec.model.gpuLayers)]),
    "--parallel",
    String(spec.model.parallel),
    ...(mode === "embedding" ? ["--embedding", "--pooling", poolingOf(model)] : []),
    ...(mode === "reranking" ? ["--reranking"] : []),
    ...(mode === "chat" ? ["--jinja"] : []),
    ...projectorFlags(spec.model.projector ?? model?.projectorPath),
  ];
  const isServer = host.llamaServer !== undefined;
  const command = [
    ...program.command,
    "--host",
    "127.0.0.1",
    "--port",
    String(port),
    "--threads",
    String(input.threads),
    ...(isServer ? ["--metrics", "--no-webui"] : []),
    ...flags,
  ];
  return workloadOf(input, { role, command, identity: flags, ref, model, port });
}

function poolingOf(model: ModelRecord | undefined): string {
  const pooling = model?.pooling;
  // Without its own pooling a model's token vectors are averaged: one vector per input is what callers expect.
  return pooling === undefined || pooling === "none" || pooling === "rank" ? "mean" : pooling;
}

function projectorFlags(path: string | undefined): string[] {
  return path === undefined ? [] : ["--mmproj", path];
}

function programOf({ spec, host }: Known): { readonly command: readonly string[] } | EngineRefusal {
  if (host.llamaServer !== undefined) return { command: [host.llamaServer] };
  if (host.embedded === undefined) {
    return {
      reason: "NoEngine",
      message:
        "there is no llama-server on PATH and the embedded engine is not installed: run `berth engine install embedded`",
    };
  }
  if (spec.backend !== "auto" && spec.backend !== "cpu") {
    return {
      reason: "NoBackend",
      message: `the embedded engine computes on the CPU only, not with ${spec.backend}: use backend = "auto" or put a llama-server on PATH`,
    };
  }
  return { command: host.embedded };
}
