import { ApiError } from "../../api/errors.ts";
import { transcriptionAnswers } from "../media/audio/transcription-answer.ts";
import { asksForEvents, eventsOf } from "../media/audio/transcription-stream.ts";
import type { UploadForm } from "../media/audio/transcription.ts";
import type { KnownSlot } from "../routing/index.ts";
import type { AnswerTranslation } from "../relay/answer-format.ts";
import type { UpstreamModel } from "../providers/catalog.ts";
import type { BackendRequest, V1Request } from "./route.ts";

export type UploadPath = "/v1/audio/transcriptions" | "/v1/audio/translations";

/** For engines that stream transcriptions; whisper.cpp does not. */
const end = /"transcript\.text\.done"|^data: ?\[DONE\]/m;
/** Statuses of an engine for a missing path. */
const absent: readonly number[] = [404, 405, 501];

export class UploadRequest implements V1Request {
  readonly #path: UploadPath;
  readonly #upload: UploadForm;
  readonly isStream = false;
  readonly body = undefined;

  constructor(path: UploadPath, upload: UploadForm) {
    this.#path = path;
    this.#upload = upload;
  }

  get model(): string {
    return this.#upload.model;
  }

  forSlot(slot: KnownSlot): BackendRequest {
    return this.#request(slot.status?.model.served ?? this.model, `slot ${slot.name}`);
  }

  forProvider({ upstream, providerModel }: UpstreamModel): BackendRequest {
    return this.#request(providerModel, `upstream ${upstream}`);
  }

  discard(): void {
    void this.#upload.discard();
  }

  #request(served: string, label: string): BackendRequest {
    return {
      capability: "transcription",
      format: { endMark: end, translation: uploadAnswers(this.#path, this.#upload.fields, label) },
      served,
      method: "POST",
      path: this.#path,
      accept: "*/*",
      ...this.#upload.formFor(served),
    };
  }
}

function uploadAnswers(path: UploadPath, fields: ReadonlyMap<string, string>, label: string): AnswerTranslation {
  const answers = transcriptionAnswers(fields);
  const areEvents = asksForEvents(fields);
  return {
    contentType: areEvents ? "text/event-stream" : answers.contentType,

    answer(body) {
      const whole = answers.answer(body);
      return areEvents ? eventsOf(whole) : whole;
    },

    refusal(status, body) {
      const isAbsent = absent.includes(status) && !/model/i.test(body.toString("latin1"));
      if (path === "/v1/audio/translations" && isAbsent) {
        const message = `${label} has no ${path}: it only transcribes`;
        return new ApiError("system.not_implemented", { message });
      }
      return answers.refusal?.(status, body);
    },
  };
}
