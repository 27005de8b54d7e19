import type { ErrorCode } from "../api/errors.ts";

/** The remedy for an error of the service. `NAME` becomes the slot of its details, `REQUEST` the request's id. */
const nextSteps: Readonly<Record<ErrorCode, string>> = {
  "auth.required": "run `berth login`, or give a token in SVC_TOKEN",
  "auth.invalid": "run `berth login`, or give a valid token in SVC_TOKEN",
  "auth.forbidden": "no token changes that: do what the message says, on the machine of the service",
  "auth.throttled": "wait a minute; a valid token, by `berth login` or in SVC_TOKEN, is never held back",
  "slot.not_found": "see `berth slot list`",
  "slot.not_ready": "see `berth slot show NAME` for the reason",
  "slot.failed": "see `berth slot show NAME` for the cause",
  "slot.disabled": "set `enabled = true` in the slot's manifest",
  "slot.overloaded": "try again later, or raise `concurrency` in its manifest",
  "slot.illegal_transition": "wait until `berth slot list` does not show it any more",
  "slot.already_exists": "see `berth slot list`",
  "slot.builtin": "set `enabled = false` in its manifest instead",
  "model.not_found": "see `berth model list`, and `berth model catalog` for those that can be fetched",
  "model.not_loaded": "see `berth model show REF`",
  "model.in_use": "give it another model first, or use --force",
  "model.insufficient_disk": "make room, or set SVC_MODELS_DIR to another disk",
  "model.checksum_mismatch": "fetch it again; if it fails again, its source has changed",
  "model.pull_failed": "try again, or fetch it from another source",
  "model.unsupported_format": "choose a file that an engine here reads, such as GGUF",
  "dispatch.invalid_request": "change what is named there, and try again",
  "dispatch.missing_model": "name a slot or a model: `berth slot list`",
  "dispatch.capability_mismatch": "see what the slot is for: `berth slot show NAME -o yaml`, capabilities",
  "dispatch.payload_too_large": "send less, or raise SVC_BODY_LIMIT of the service",
  "dispatch.unsupported_media_type":
    "the service may be older than this command: compare `berth status` and `berth --version`",
  "dispatch.rejected": "change what the engine did not take, and try again",
  "dispatch.upstream_failed": "see `berth slot logs NAME`",
  "dispatch.upstream_unavailable": "see `berth slot logs NAME`, or try again later",
  "dispatch.upstream_timeout": "try again with less, or raise `timeoutSeconds` in its manifest",
  "config.invalid": "change the field that is named; docs/reference.md has all of them",
  "config.read_only": "change the manifest where it is kept: in Git, or in the cluster",
  "config.changed": "read the file again, and repeat your change",
  "config.fit": "see `berth model show REF`, or choose a smaller model",
  // An unknown route: this command line may be newer than the service.
  "system.not_found": "the service may be older than this command: compare `berth status` and `berth --version`",
  "system.method_not_allowed":
    "the service may be older than this command: compare `berth status` and `berth --version`",
  "system.overloaded": "try again in a moment",
  "system.not_implemented": "this version of the service cannot do that yet",
  "system.internal": "the log of the service has the cause, under the request id REQUEST",
};

/** Remedies for a provider's failure, which is in no slot's log. */
const providerSteps: Readonly<Partial<Record<ErrorCode, string>>> = {
  "dispatch.capability_mismatch": "see what the provider is for: `berth upstream show NAME`",
  "dispatch.upstream_failed": "see `berth upstream check NAME`",
  "dispatch.upstream_unavailable": "see `berth upstream check NAME`, or try again later",
  "dispatch.upstream_timeout": "try again with less, or raise `timeoutSeconds` in the provider's manifest",
  "slot.overloaded": "try again later, or raise `maxConcurrent` in the provider's manifest",
};

/** Codes whose reason is more precise than the code. */
const reasonCodes: readonly string[] = ["slot.not_ready", "slot.disabled", "system.overloaded"];
const reasonSteps: Readonly<Record<string, string>> = {
  NotConfigured: "configure it: `berth slot create NAME --model REF`, or a manifest slots/NAME.toml",
  NoSpace: "delete some files on the disk of that directory, or enlarge it",
  Unloaded: "load it with `berth slot load NAME`",
};

/** For a caller whose token has too low a scope. */
const tokenStep = "a token of a higher scope may: `berth login`, or SVC_TOKEN";

/** Fields of the request that are options of the command. */
const pathSteps: Readonly<Record<string, string>> = {
  files: "add --files",
  force: "add --force",
};

interface About {
  readonly slot?: string | undefined;
  readonly upstream?: string | undefined;
  /** The reason in the error's details. */
  readonly reason?: string | undefined;
  /** The field with the error. */
  readonly path?: string | undefined;
  /** The request's id. */
  readonly request: string;
  /** The caller's scope, which was too low. */
  readonly scope?: string | undefined;
}

/** Undefined for a code that this version does not know. */
export function nextStep(code: string, { slot, upstream, reason, path, request, scope }: About): string | undefined {
  const name = slot ?? upstream ?? "NAME";
  const step =
    (slot === undefined && upstream !== undefined ? known(providerSteps, code) : undefined) ??
    (reasonCodes.includes(code) && reason !== undefined ? known(reasonSteps, reason) : undefined) ??
    (code === "auth.forbidden" && scope !== undefined ? tokenStep : undefined) ??
    (path === undefined ? undefined : known(pathSteps, path)) ??
    known(nextSteps, code);
  return step?.replaceAll("NAME", name).replace("REQUEST", request);
}

function known(steps: Readonly<Partial<Record<string, string>>>, key: string): string | undefined {
  return Object.hasOwn(steps, key) ? steps[key] : undefined;
}
