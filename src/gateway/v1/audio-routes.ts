import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import type { Exchange, ExchangeEvents } from "../../lib/http1/client.ts";
import { bearerLine } from "../admission/availability.ts";
import type { BufferBudget } from "../admission/budget.ts";
import { speechAnswers, speechRequest, voicesAnswers } from "../audio/speech.ts";
import { openTranscription } from "../audio/transcription.ts";
import type { KnownSlot } from "../index.ts";
import { plainErrors } from "../relay/error-form.ts";
import type { AnswerFormat } from "../relay/answer-format.ts";
import { jsonRoute } from "./json-route.ts";
import type { UpstreamModel } from "../upstreams/catalog.ts";
import type { Destination, Leg, ProviderLeg, V1Request, V1Route } from "./route.ts";
import { UploadRequest, type UploadPath } from "./upload-request.ts";

/** Where uploads wait. */
interface UploadPlaces {
  readonly spoolDir: string;
  readonly spooled: BufferBudget;
}

/** The routes that take or make sound. `stateDir` has room for uploads that wait, as far as `spooled` goes. */
export function audioRoutes(stateDir: string, spooled: BufferBudget): readonly V1Route[] {
  const places = { spoolDir: join(stateDir, "spool"), spooled };
  return [
    jsonRoute({
      path: "/v1/audio/speech",
      summary: "A text spoken",
      hasStreams: false,
      gives: ["audio/mpeg", "audio/wav", "audio/opus", "audio/flac", "audio/pcm", "text/event-stream"],
      target: ({ isProvider }) => ({
        capability: "speech",
        enginePath: "/v1/audio/speech",
        accept: "*/*",
        endMark: speechEnd,
        // What a provider takes, and does where something is left out, is its own.
        translation: { ...speechAnswers, request: (body) => (isProvider ? body : speechRequest(body).body) },
      }),
    }),
    uploadRoute("/v1/audio/transcriptions", "What is said in a recording", places),
    uploadRoute("/v1/audio/translations", "What is said in a recording, in English, where the engine can", places),
    {
      method: "GET",
      path: "/v1/audio/voices",
      about: { summary: "The voices that speech can have", gives: "application/json" },
      spellings: [],
      errors: plainErrors,
      read: (request) => Promise.resolve(new VoicesRequest(modelOf(request))),
    },
  ];
}

/** Of providers that send speech as events. */
const speechEnd = /"speech\.audio\.done"/;

function uploadRoute(path: UploadPath, summary: string, places: UploadPlaces): V1Route {
  return {
    method: "POST",
    path,
    about: {
      summary,
      takes: "multipart/form-data",
      gives: ["application/json", "text/event-stream", "text/plain", "text/vtt", "application/x-subrip"],
    },
    spellings: [],
    errors: plainErrors,
    read: async (request, { bodyBytes, charge }) => {
      const limits = { bodyLimitBytes: bodyBytes, charge, ...places };
      return new UploadRequest(path, await openTranscription(request, limits));
    },
  };
}

const voicesFormat: AnswerFormat = { translation: voicesAnswers };

class VoicesRequest implements V1Request {
  readonly model: string;
  readonly isStream = false;
  readonly body = undefined;

  constructor(model: string) {
    this.model = model;
  }

  forSlot(slot: KnownSlot): Leg {
    return {
      capability: "speech",
      format: voicesFormat,
      served: slot.status?.model.served ?? this.model,
      bytes: 0,
      send: getVoices,
    };
  }

  /** A provider with several models may have voices for each. */
  forProvider({ providerModel }: UpstreamModel): ProviderLeg {
    return {
      capability: "speech",
      path: `/v1/audio/voices?model=${encodeURIComponent(providerModel)}`,
      accept: "application/json",
      format: voicesFormat,
    };
  }
}

function getVoices({ endpoint, pool, requestId, timeouts }: Destination, events: ExchangeEvents): Exchange {
  const head =
    `GET /v1/audio/voices HTTP/1.1\r\nhost: ${endpoint.host}:${endpoint.port}\r\n` +
    `x-request-id: ${requestId}\r\naccept: application/json\r\n${bearerLine(endpoint)}\r\n`;
  return pool.request(head, [], timeouts, events);
}

/** `?model=`, else the slot for speech. */
function modelOf(request: IncomingMessage): string {
  const { url = "/" } = request;
  // No URL is parsed: in the absolute form a client may write a host that is none.
  const model = new URLSearchParams(url.slice(url.indexOf("?") + 1 || url.length)).get("model");
  return model === null || model === "" ? "tts" : model;
}
