import type { Container, PodNeeds, Workload } from "../../../src/api/workload.ts";
import type { PodSite } from "../../../src/runtimes/kubernetes/pod.ts";
import { plainContainer } from "../../support/container.ts";

export const site: PodSite = {
  namespace: "ai",
  instance: "home",
  models: { directory: "/models", source: { claim: "berth-models" } },
  user: 65_532,
};

export const podNeeds: PodNeeds = { backend: "cpu", extended: {}, claims: [] };

export const llama: Container = {
  ...plainContainer,
  image: "ghcr.io/ggml-org/llama.cpp@sha256:1111",
  modelFiles: ["/models/blobs/sha256-22.gguf"],
  pod: podNeeds,
};

export const workload: Workload = {
  slot: "primary",
  role: "main",
  ordinal: 0,
  hash: "0123456789abcdef",
  runtime: "kubernetes",
  command: ["--model", "/models/blobs/sha256-22.gguf", "--host", "0.0.0.0", "--port", "8080"],
  env: { HOST: "0.0.0.0", PORT: "8080", SLOT: "primary", MODEL: "qwen3-4b" },
  workingDir: undefined,
  port: 8080,
  stopSeconds: 30,
};
