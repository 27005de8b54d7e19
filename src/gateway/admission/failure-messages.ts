/**
 * Why a slot has failed, for clients of `/v1`: from the reason alone. The operator's own message may hold paths and the
 * engine's output (CONTRACT "Errors"); `/api` and `berth slot show` have it.
 */
const sentences: Readonly<Record<string, string>> = {
  ChecksumMismatch: "its model has another checksum than it should",
  Exited: "its engine exited",
  GroupFull: "its group has no place for it",
  FetchFailed: "its model could not be fetched",
  ImageNotFound: "its container image does not exist",
  InvalidSpec: "its manifest is not valid",
  LicenseNotAccepted: "the licence of its model was not accepted yet",
  ModelFileMissing: "its model's file is missing",
  ModelNotFound: "its model is not known",
  NoBackend: "this machine has no backend for it",
  NoCapability: "its model cannot do the slot's work",
  NoEngine: "its engine is not installed",
  NoFreePort: "no port is free for its engine",
  NoImage: "there is no container image for it",
  NoPermission: "its files may not be written",
  NoProjector: "its model has no projector",
  NoRuntime: "there is no runtime for its engine here",
  NoSecret: "a secret that it needs is missing",
  NoSpace: "there is no disk space for it",
  NotListening: "its engine no longer accepts connections",
  NotAModel: "its model's file is no model",
  OOMKilled: "its engine needed more memory than the machine has",
  OutOfMemory: "its engine needed more memory than the machine has",
  PortInUse: "another process has its port",
  ProjectorNotFound: "its projector is not known",
  PullFailed: "its files could not be fetched",
  Restarted: "its engine was restarted from outside",
  RuntimeUnavailable: "the runtime of its engine does not answer",
  SizeMismatch: "its model has another size than it should",
  Signalled: "its engine was ended by a signal",
  SourceNotFound: "its model is not where its source says",
  SourceRefused: "its model's source may not be fetched from",
  StartFailed: "its engine could not be started",
  StartupTimeout: "its engine did not become ready in time",
  TruncatedModel: "its model's file is incomplete",
  Unauthorized: "its files could not be fetched without credentials",
  Unhealthy: "its engine fails its health checks",
  Unreadable: "its model's file cannot be read",
  UnsupportedSource: "its model's source is not supported",
  Vanished: "its engine is gone",
  WarmUpRefused: "its engine refuses the first request",
  WrongEngine: "its engine cannot load its model",
  WrongPlatform: "its container image is for another platform",
};

/** The sentence for a reason, without the slot's name. */
export function failureMessage(reason: string): string {
  return Object.hasOwn(sentences, reason) ? (sentences[reason] ?? unnamed) : unnamed;
}

const unnamed = "its status names the cause";
