// validate_json SCHEMA FILE: exit code 0 where the file fits the JSON schema; else what doesn't,
// and 1.
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace {

using nlohmann::json;
using valijson::adapters::NlohmannJsonAdapter;

json Read(const char* path) {
  std::ifstream in(path);
  return json::parse(in);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "validate_json SCHEMA FILE\n";
    return 2;
  }
  const json schema_text = Read(argv[1]), text = Read(argv[2]);
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(NlohmannJsonAdapter(schema_text), schema);
  valijson::ValidationResults results;
  if (valijson::Validator().validate(schema, NlohmannJsonAdapter(text), &results)) return 0;
  for (valijson::ValidationResults::Error error; results.popError(error);) {
    for (const std::string& place : error.context) std::cerr << place;
    std::cerr << ": " << error.description << "\n";
  }
  return 1;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 2;
}
