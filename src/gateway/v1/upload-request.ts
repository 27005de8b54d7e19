import { ApiError } from "../../api/errors.ts";
import { transcriptionAnswers } from "../media/audio/transcription-answer.ts";
import { asksForEvents, eventsOf } from "../media/audio/transcription-stream.ts";
import type { Transcription } from "../media/audio/transcription.ts";
import type { KnownSlot } from "../routing/index.ts";
import type { AnswerTranslation } from "../relay/answer-format.ts";
import type { UpstreamModel } from "../providers/catalog.ts";
import type { BackendRequest, V1Request } from "./route.ts";

export type UploadPath = "/v1/audio/transcriptions" | "/v1/audio/translations";

/** For engines that stream transcriptions; whisper.cpp does not. */
const end = /"transcript\.text\.done"|^data: ?\[DONE\]/m;
/** Statuses of an engine for a missing path. */
const absent: readonly number[] = [404, 405, 501];

/** An upload arrives while it waits: it reports when it breaks. */
export class UploadRequest implements V1Request {
  readonly #path: UploadPath;
  readonly #upload: Transcription;
  readonly isStream = false;
  readonly body = undefined;

  constructor(path: UploadPath, upload: Transcription) {
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

  onBroken(listener: (failure: ApiError) => void): void {
    const { broken } = this.#upload;
    const notify = (): void => {
      listener(
        broken.reason instanceof ApiError
          ? broken.reason
          : new ApiError("dispatch.invalid_request", { message: "the upload broke off" }),
      );
    };
    if (broken.aborted) notify();
    else broken.addEventListener("abort", notify, { once: true });
  }

  discard(): void {
    void this.#upload.discard();
  }

  #request(served: string, label: string): BackendRequest {
    return {
      capability: "transcription",
      format: { endMark: end, translation: new UploadAnswers(this.#path, this.#upload.fields, label) },
      served,
      method: "POST",
      path: this.#path,
      accept: "*/*",
      // Until the backend accepts the connection no part of the upload is consumed.
      body: () => this.#upload.forward(served),
    };
  }
}

/** Whether events were requested is known with the last field: when the engine answers, all fields have arrived. */
class UploadAnswers implements AnswerTranslation {
  readonly #path: UploadPath;
  readonly #fields: ReadonlyMap<string, string>;
  readonly #answers: AnswerTranslation;
  readonly #label: string;

  constructor(path: UploadPath, fields: ReadonlyMap<string, string>, label: string) {
    this.#path = path;
    this.#fields = fields;
    this.#answers = transcriptionAnswers(fields);
    this.#label = label;
  }

  get contentType(): string | undefined {
    return asksForEvents(this.#fields) ? "text/event-stream" : this.#answers.contentType;
  }

  answer(body: Buffer): Buffer {
    const whole = this.#answers.answer(body);
    return asksForEvents(this.#fields) ? eventsOf(whole) : whole;
  }

  refusal(status: number, body: Buffer): ApiError | undefined {
    const isAbsent = absent.includes(status) && !/model/i.test(body.toString("latin1"));
    if (this.#path === "/v1/audio/translations" && isAbsent) {
      const message = `${this.#label} has no ${this.#path}: it only transcribes`;
      return new ApiError("system.not_implemented", { message });
    }
    return this.#answers.refusal?.(status, body);
  }
}
