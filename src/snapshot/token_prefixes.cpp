// Credentials that begin as their issuers say, for scanners to find them.
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "src/snapshot/token_shapes.h"

namespace xp::snapshot {
namespace {

// From the issuers' documentation on secret scanning.
struct Prefix {
  std::string_view text;
  size_t at_least;  // characters behind the prefix
  const char* kind;
  bool base64 = false;  // '+', '/' and '=' belong to it
};
constexpr std::array kPrefixes = {
    Prefix{"ghp_", 30, "github-token"},
    Prefix{"gho_", 30, "github-token"},
    Prefix{"ghu_", 30, "github-token"},
    Prefix{"ghs_", 30, "github-token"},
    Prefix{"ghr_", 30, "github-token"},
    Prefix{"github_pat_", 22, "github-token"},
    Prefix{"glpat-", 20, "gitlab-token"},
    Prefix{"gldt-", 20, "gitlab-token"},
    Prefix{"glrt-", 20, "gitlab-token"},
    Prefix{"AKIA", 16, "aws-access-key"},
    Prefix{"ASIA", 16, "aws-access-key"},
    Prefix{"hf_", 30, "huggingface-token"},
    Prefix{"sk-", 20, "api-key"},
    Prefix{"sk_live_", 16, "stripe-key"},
    Prefix{"rk_live_", 16, "stripe-key"},
    Prefix{"xoxb-", 16, "slack-token"},
    Prefix{"xoxp-", 16, "slack-token"},
    Prefix{"xoxa-", 16, "slack-token"},
    Prefix{"xoxs-", 16, "slack-token"},
    Prefix{"xapp-", 16, "slack-token"},
    Prefix{"AIza", 35, "google-api-key"},
    Prefix{"ya29.", 20, "google-token"},
    Prefix{"npm_", 36, "npm-token"},
    Prefix{"pypi-", 50, "pypi-token"},
    Prefix{"dckr_pat_", 20, "docker-token"},
    Prefix{"dop_v1_", 40, "digitalocean-token"},
    Prefix{"SG.", 40, "sendgrid-key"},
    Prefix{"wandb_v1_", 40, "wandb-key"},
    Prefix{"glptt-", 20, "gitlab-token"},
    Prefix{"glcbt-", 20, "gitlab-token"},
    Prefix{"ABIA", 16, "aws-access-key"},
    Prefix{"ACCA", 16, "aws-access-key"},
    Prefix{"api_org_", 30, "huggingface-token"},
    Prefix{"sk_test_", 16, "stripe-key"},
    Prefix{"rk_test_", 16, "stripe-key"},
    Prefix{"whsec_", 24, "stripe-key"},
    Prefix{"xoxe", 16, "slack-token"},
    Prefix{"hvs.", 20, "vault-token"},
    Prefix{"hvb.", 20, "vault-token"},
    Prefix{"shpat_", 24, "shopify-token"},
    Prefix{"r8_", 30, "replicate-token"},
    Prefix{"gsk_", 30, "api-key"},
    Prefix{"xai-", 40, "api-key"},
    Prefix{"nvapi-", 40, "nvidia-api-key"},
    Prefix{"tskey-", 20, "tailscale-key"},
    Prefix{"AGE-SECRET-KEY-1", 40, "private-key"},
    Prefix{"PMAK-", 24, "postman-key"},
    Prefix{"figd_", 30, "figma-token"},
    Prefix{"ntn_", 30, "notion-token"},
    Prefix{"lin_api_", 30, "linear-key"},
    Prefix{"sntrys_", 30, "sentry-token"},
    Prefix{"rubygems_", 40, "rubygems-key"},
    Prefix{"hooks.slack.com/services/", 20, "webhook"},
    Prefix{"discord.com/api/webhooks/", 20, "webhook"},
    Prefix{"discordapp.com/api/webhooks/", 20, "webhook"},
    Prefix{"gloas-", 40, "gitlab-token"},
    Prefix{"glft-", 20, "gitlab-token"},
    Prefix{"glsoat-", 20, "gitlab-token"},
    Prefix{"glagent-", 40, "gitlab-token"},
    Prefix{"glimt-", 20, "gitlab-token"},
    Prefix{"glffct-", 20, "gitlab-token"},
    Prefix{"xoxc-", 16, "slack-token"},
    Prefix{"xoxd-", 16, "slack-token"},
    Prefix{"xoxr-", 16, "slack-token"},
    Prefix{"GOCSPX-", 28, "google-token"},
    Prefix{"dapi", 32, "databricks-token"},
    Prefix{"ATATT3", 80, "atlassian-token"},
    Prefix{"ATBB", 24, "atlassian-token"},
    Prefix{"glsa_", 32, "grafana-token"},
    Prefix{"glc_", 40, "grafana-token", true},
    Prefix{"NRAK-", 27, "newrelic-key"},
    Prefix{"dp.pt.", 40, "doppler-token"},
    Prefix{"pul-", 40, "pulumi-token"},
    Prefix{"sq0csp-", 40, "square-token"},
    Prefix{"sq0atp-", 22, "square-token"},
    Prefix{"pplx-", 40, "api-key"},
    Prefix{"KGAT_", 32, "kaggle-key"},
    Prefix{"pscale_tkn_", 32, "planetscale-token"},
    Prefix{"pscale_pw_", 32, "planetscale-token"},
    Prefix{"sbp_", 40, "supabase-token"},
    Prefix{"fo1_", 40, "fly-token"},
    Prefix{"fm2_", 40, "fly-token", true},
    Prefix{"sl.", 100, "dropbox-token"},
    Prefix{"rpa_", 40, "runpod-key"},
    Prefix{"ak-", 22, "modal-token"},
    Prefix{"as-", 22, "modal-token"},
    Prefix{"pa-", 43, "api-key"},
    Prefix{"SCW", 17, "scaleway-key"},
    Prefix{"eyJhcGlfYWRkcmVzcyI6", 40, "neptune-token"},
};

// Words joined by dashes aren't a token ("sk-learn-contrib-forest-of-trees-2"): in one that was
// drawn at random, a separator stands at each thirtieth place or so.
bool HasLongPiece(std::string_view rest, size_t at_least) {
  size_t longest = 0, piece = 0;
  for (char c : rest) {
    piece = std::isalnum(static_cast<unsigned char>(c)) ? piece + 1 : 0;
    longest = std::max(longest, piece);
  }
  return longest >= std::min<size_t>(at_least, 14);
}

// A bot's token: its number in base64, a time and a signature. Only this number makes it known.
TokenMatch MatchDiscord(std::string_view text, size_t at) {
  if (text[at] != 'M' && text[at] != 'N' && text[at] != 'O') return {};
  size_t end = at;
  constexpr std::array<std::pair<size_t, size_t>, 3> kParts = {{{23, 28}, {6, 7}, {27, 40}}};
  for (size_t part = 0; part < kParts.size(); ++part) {
    size_t n = RunLength(text, end, IsTokenChar);
    if (n < kParts[part].first || n > kParts[part].second) return {};
    end += n;
    if (part + 1 < kParts.size() && (end >= text.size() || text[end++] != '.')) return {};
  }
  if (!HasDigitAndLetter(text.substr(at, 23))) return {};
  return {at, end - at, "discord-token"};
}

// A client secret of Azure AD: three characters, a digit, "Q~" and 31 to 34 more.
TokenMatch MatchAzure(std::string_view text, size_t at) {
  if (text.substr(at + 4 < text.size() ? at + 4 : at, 2) != "Q~") return {};
  if (!std::isdigit(static_cast<unsigned char>(text[at + 3]))) return {};
  size_t n = RunLength(text, at, [](char c) { return IsTokenChar(c) || c == '.' || c == '~'; });
  if (n < 37 || n > 40) return {};
  return {at, n, "azure-secret"};
}

}  // namespace

TokenMatch MatchPrefix(std::string_view text, size_t at) {
  for (const Prefix& p : kPrefixes) {
    if (text[at] != p.text[0] || text.substr(at, p.text.size()) != p.text) continue;
    bool path = p.text.back() == '/';
    size_t n = RunLength(text, at + p.text.size(), [&](char c) {
      return IsTokenChar(c) || c == '.' || ((path || p.base64) && c == '/') ||
             (p.base64 && (c == '+' || c == '='));
    });
    std::string_view rest = text.substr(at + p.text.size(), n);
    if (n < p.at_least || !HasLongPiece(rest, p.at_least)) continue;
    if (HasDigitAndLetter(rest) || Entropy(rest) > 3.5) return {at, p.text.size() + n, p.kind};
  }
  if (TokenMatch m = MatchDiscord(text, at); m.kind) return m;
  return MatchAzure(text, at);
}

}  // namespace xp::snapshot
