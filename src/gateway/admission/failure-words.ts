/**
 * Why a slot has failed, for whoever may call `/v1`: made from the reason alone. The operator's own message may hold
 * paths and the engine's last words (CONTRACT "Errors"); those are read in `/api` and by `berth slot show`.
 */
const sentences: Readonly<Record<string, string>> = {
  Exited: "its engine exited",
  ImageNotFound: "its container image does not exist",
  InvalidSpec: "its manifest is not valid",
  ModelFileMissing: "its model's file is missing",
  ModelNotFound: "its model is not known",
  NoBackend: "this machine has no backend for it",
  NoCapability: "its model does not do what the slot is for",
  NoEngine: "its engine is not installed",
  NoFreePort: "no port is free for its engine",
  NoImage: "there is no container image for it",
  NoProjector: "its model has no projector",
  NoRuntime: "there is no runtime for its engine here",
  NoSecret: "a secret that it needs is missing",
  NoSpace: "there is no disk space for it",
  NotListening: "its engine no longer takes connections",
  NotAModel: "its model's file is no model",
  OOMKilled: "its engine needed more memory than there is",
  OutOfMemory: "its engine needed more memory than there is",
  PortInUse: "another process has its port",
  ProjectorNotFound: "its projector is not known",
  PullFailed: "what it needs could not be fetched",
  Restarted: "somebody else restarted its engine",
  RuntimeUnavailable: "the runtime of its engine does not answer",
  Signalled: "its engine was ended by a signal",
  StartFailed: "its engine could not be started",
  StartupTimeout: "its engine did not become ready in time",
  TruncatedModel: "its model's file is not whole",
  Unauthorized: "what it needs could not be fetched without credentials",
  Unhealthy: "its engine fails its health checks",
  Unreadable: "its model's file cannot be read",
  UnsupportedSource: "its model's source is not supported",
  Vanished: "its engine is gone",
  WrongEngine: "its engine cannot load its model",
  WrongPlatform: "its container image is for another platform",
};

/** The sentence for a reason, without the slot's name. */
export function failureWords(reason: string): string {
  return Object.hasOwn(sentences, reason) ? (sentences[reason] ?? unnamed) : unnamed;
}

const unnamed = "its status names the cause";
