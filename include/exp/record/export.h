// Runs as files for other programs, and back. None of them alters the store but ImportJson.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "exp/record/store.h"

namespace xp::record {

// Complete: ImportJson makes the same run of it, bit for bit. Keys: "format" ("exp-run"), "version"
// (1), "curves" {name: [[step, at_ms, attempt, value], ...]}, "tables" {table: [row, ...]},
// "objects" {hash: base64}, "documents" {hash: {kind, json}}, "checksum".
nlohmann::json ExportJson(const Store& store, int64_t run);
// Makes "checksum" fit again after something was added.
void SealExport(nlohmann::json& exported);

// The JSON of a text; throws UsageError naming `place` where it is none.
nlohmann::json ParseExport(const std::string& text, const std::string& place);

// Adds the run; gives its id. Throws UsageError for an export that isn't to the last value as it
// was written, or where the store has the run already; then the store is as it was.
std::string ImportJson(const Store& store, const nlohmann::json& exported);

// `folder`/curves.csv, epochs.csv, config.csv (RFC 4180).
void ExportCsv(const Store& store, int64_t run, const std::filesystem::path& folder);

// One event file in `folder` (TFRecord of tensorflow.Event). TensorBoard's scalars are 32-bit
// floats.
void ExportTensorBoard(const Store& store, int64_t run, const std::filesystem::path& folder);

// MLflow's file store: `folder`/0/RUN/{meta.yaml,metrics,params,tags}, to be read with
// `mlflow ui --backend-store-uri FOLDER`. Characters that MLflow refuses in names become '_'.
void ExportMlflow(const Store& store, int64_t run, const std::filesystem::path& folder);

}  // namespace xp::record
